#include "core/text/huggingface/json_fields.hpp"

#include <algorithm>
#include <span>

#include "core/base/json_tree.hpp"

namespace bp::text::huggingface {
namespace {

struct Kind {
  const char* name;
  bool (*holds)(const Json& value);
  std::span<const std::string_view> members;
};
constexpr std::string_view kTexts[] = {"behavior",
                                       "content",
                                       "continuing_subword_prefix",
                                       "delimiter",
                                       "precompiled_charsmap",
                                       "prefix",
                                       "prepend",
                                       "prepend_scheme",
                                       "replacement",
                                       "suffix",
                                       "type",
                                       "unk_token"};
constexpr std::string_view kFlags[] = {"add_prefix_space",
                                       "byte_fallback",
                                       "clean_text",
                                       "fuse_unk",
                                       "handle_chinese_chars",
                                       "ignore_merges",
                                       "individual_digits",
                                       "invert",
                                       "lowercase",
                                       "lstrip",
                                       "normalized",
                                       "rstrip",
                                       "single_word",
                                       "special",
                                       "split",
                                       "strip_accents",
                                       "strip_left",
                                       "strip_right",
                                       "use_regex"};
constexpr std::string_view kNumbers[] = {"max_input_chars_per_word", "start", "unk_id"};

constexpr Kind kKinds[] = {
    {"a text", [](const Json& value) { return value.is_string(); }, kTexts},
    {"true or false", [](const Json& value) { return value.is_boolean(); }, kFlags},
    {"a whole number", [](const Json& value) { return value.is_number_integer(); }, kNumbers},
};

}  // namespace

Status check_kinds(const Json& object) {
  if (!object.is_object()) return {};
  for (const auto& [name, value] : object.items()) {
    for (const Kind& kind : kKinds) {
      const bool is_kind = std::ranges::find(kind.members, name) != kind.members.end();
      if (!is_kind || value.is_null() || kind.holds(value)) continue;
      return invalid_argument("tokenizer.json: member \"" + name + "\" must be " + kind.name +
                              ", found " + value.dump(-1, ' ', true).substr(0, 64));
    }
  }
  return {};
}

Result<Json> parse_object(std::string_view text, std::string_view name) {
  auto json = base::parse_json<Json>(text, {.n_values = SIZE_MAX});
  if (!json.ok()) return json.status().with_context(std::string(name));
  if (json->is_object()) return json;
  return invalid_argument(std::string(name) + ": no JSON object");
}

}  // namespace bp::text::huggingface
