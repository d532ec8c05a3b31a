#include "core/text/huggingface/normalizer.hpp"

#include <memory>

#include "core/text/huggingface/charsmap.hpp"
#include "core/text/huggingface/json_fields.hpp"
#include "core/text/huggingface/pattern.hpp"
#include "core/text/huggingface/unicode_forms.hpp"

namespace bp::text::huggingface {
namespace {

std::string replaced(std::string_view text, const Pattern& pattern, const std::string& content) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const auto match = pattern.find(text, at);
    if (match.begin == match.end) return out.append(text.substr(at));
    out.append(text.substr(at, match.begin - at)).append(content);
    at = match.end;
  }
  return out;
}

std::string bert_normalized(std::string_view text, bool cleans, bool isolates_chinese,
                            bool strips_accents, bool lowers) {
  std::string out = cleans ? clean_text(text) : std::string(text);
  if (isolates_chinese) out = space_chinese(out);
  if (strips_accents) out = without_nonspacing_marks(to_form(out, UnicodeForm::kNfd));
  return lowers ? lower_case(out) : out;
}

}  // namespace

Result<Normalizer> Normalizer::parse(const Json* json) {
  Normalizer normalizer;
  if (json != nullptr) {
    BP_TRY(for_each_step(*json, "normalizers",
                         [&](const Json& step) { return normalizer.add(step); }));
  }
  return normalizer;
}

Result<Normalizer> Normalizer::of_charsmap(std::string charsmap) {
  Normalizer normalizer;
  BP_TRY(normalizer.add_charsmap(std::move(charsmap)));
  return normalizer;
}

Status Normalizer::add_charsmap(std::string bytes) {
  if (steps_.empty()) charsmap_ = bytes;
  BP_ASSIGN(Charsmap map, Charsmap::parse(std::move(bytes)));
  const auto shared = std::make_shared<const Charsmap>(std::move(map));
  steps_.push_back([shared](std::string_view text) { return shared->apply(text); });
  return {};
}

void Normalizer::add_collapse() {
  steps_.emplace_back(spaces_collapsed);
}

Status Normalizer::add(const Json& step) {
  const std::string type = type_of(step);
  for (const auto& [name, form] : kUnicodeForms) {
    if (type != name) continue;
    steps_.push_back([form = form](std::string_view text) { return to_form(text, form); });
    return {};
  }
  if (type == "Lowercase") {
    steps_.emplace_back(lower_case);
  } else if (type == "StripAccents") {
    steps_.emplace_back(without_marks);
  } else if (type == "Nmt") {
    steps_.emplace_back(nmt_cleaned);
  } else if (type == "Strip") {
    const bool left = flag_of(step, "strip_left", true);
    const bool right = flag_of(step, "strip_right", true);
    steps_.push_back([=](std::string_view text) { return stripped(text, left, right); });
  } else if (type == "Prepend") {
    steps_.push_back([prefix = text_of(step, "prepend")](std::string_view text) {
      return (text.empty() ? "" : prefix) + std::string(text);
    });
  } else if (type == "Replace") {
    BP_ASSIGN(Pattern pattern, Pattern::parse(step));
    steps_.push_back([pattern = std::move(pattern), content = text_of(step, "content")](
                         std::string_view text) { return replaced(text, pattern, content); });
  } else if (type == "BertNormalizer") {
    const bool lowers = flag_of(step, "lowercase", true);
    const bool cleans = flag_of(step, "clean_text", true);
    const bool isolates = flag_of(step, "handle_chinese_chars", true);
    const bool strips = flag_of(step, "strip_accents", lowers);
    steps_.push_back([=](std::string_view text) {
      return bert_normalized(text, cleans, isolates, strips, lowers);
    });
  } else if (type == "Precompiled") {
    BP_ASSIGN(std::string bytes, decode_base64(text_of(step, "precompiled_charsmap")));
    if (bytes.empty()) return {};
    return add_charsmap(std::move(bytes));
  } else {
    return unknown_type("a normalizer", type);
  }
  return {};
}

std::string Normalizer::apply(std::string_view text) const {
  std::string out(text);
  for (const Step& step : steps_) out = step(out);
  return out;
}

}  // namespace bp::text::huggingface
