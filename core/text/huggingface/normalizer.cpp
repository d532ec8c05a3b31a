#include "core/text/huggingface/normalizer.hpp"

#include <algorithm>
#include <memory>

#include "core/text/huggingface/charsmap.hpp"
#include "core/text/huggingface/growth.hpp"
#include "core/text/huggingface/json_fields.hpp"
#include "core/text/huggingface/pattern.hpp"
#include "core/text/huggingface/unicode_forms.hpp"

namespace bp::text::huggingface {
namespace {

struct BertSteps {
  bool cleans;
  bool isolates_chinese;
  bool strips_accents;
  bool lowers;

  // Appends what they make of ASCII characters, which is the same whatever stands beside them.
  void apply_to_ascii(std::string_view text, std::string& out) const {
    for (char c : text) {
      const bool is_blank = c == '\t' || c == '\n' || c == '\r';
      const bool is_control = c < ' ' || c == '\x7F';
      if (cleans && is_control && !is_blank) continue;
      if (cleans && is_blank) c = ' ';
      out.push_back(lowers && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
    }
  }

  void apply_to_others(std::string_view text, std::string& out) const {
    std::string changed = cleans ? clean_text(text) : std::string(text);
    if (isolates_chinese) changed = space_chinese(changed);
    if (strips_accents) changed = without_nonspacing_marks(to_form(changed, UnicodeForm::kNfd));
    out += lowers ? lower_case(changed) : changed;
  }

  [[nodiscard]] std::string apply(std::string_view text) const {
    std::string out;
    out.reserve(text.size());
    const auto is_ascii = [](char c) { return static_cast<uint8_t>(c) < 0x80; };
    for (auto at = text.begin(); at != text.end();) {
      const auto others = std::find_if_not(at, text.end(), is_ascii);
      apply_to_ascii({at, others}, out);
      at = std::find_if(others, text.end(), is_ascii);
      if (at != others) apply_to_others({others, at}, out);
    }
    return out;
  }
};

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
  BP_TRY(normalizer.add_charsmap(std::move(charsmap), &Charsmap::apply));
  return normalizer;
}

Status Normalizer::add_charsmap(std::string bytes, ApplyCharsmap apply) {
  if (steps_.empty()) charsmap_ = bytes;
  BP_ASSIGN(Charsmap map, Charsmap::parse(std::move(bytes)));
  const auto shared = std::make_shared<const Charsmap>(std::move(map));
  steps_.push_back([shared, apply](std::string_view text, size_t max_bytes) {
    return (*shared.*apply)(text, max_bytes);
  });
  return {};
}

void Normalizer::add_collapse() {
  add_change(spaces_collapsed);
}

Status Normalizer::add(const Json& step) {
  const std::string type = type_of(step);
  for (const auto& [name, form] : kUnicodeForms) {
    if (type != name) continue;
    add_change([form = form](std::string_view text) { return to_form(text, form); });
    return {};
  }
  if (type == "Lowercase") {
    add_change(lower_case);
  } else if (type == "StripAccents") {
    add_change(without_marks);
  } else if (type == "Nmt") {
    add_change(nmt_cleaned);
  } else if (type == "Strip") {
    const bool left = flag_of(step, "strip_left", true);
    const bool right = flag_of(step, "strip_right", true);
    add_change([=](std::string_view text) { return stripped(text, left, right); });
  } else if (type == "Prepend") {
    prepends_ = true;
    BP_ASSIGN(std::string prefix, replacement_of(step, "prepend"));
    add_change([prefix = std::move(prefix)](std::string_view text) {
      return (text.empty() ? "" : prefix) + std::string(text);
    });
  } else if (type == "Replace") {
    BP_ASSIGN(Pattern pattern, Pattern::parse(step));
    BP_ASSIGN(std::string content, replacement_of(step, "content"));
    steps_.push_back([pattern = std::move(pattern), content = std::move(content)](
                         std::string_view text, size_t max_bytes) {
      return pattern.replace(text, content, max_bytes);
    });
  } else if (type == "BertNormalizer") {
    const bool lowers = flag_of(step, "lowercase", true);
    const BertSteps steps{.cleans = flag_of(step, "clean_text", true),
                          .isolates_chinese = flag_of(step, "handle_chinese_chars", true),
                          .strips_accents = flag_of(step, "strip_accents", lowers),
                          .lowers = lowers};
    add_change([steps](std::string_view text) { return steps.apply(text); });
  } else if (type == "Precompiled") {
    BP_ASSIGN(std::string bytes, decode_base64(text_of(step, "precompiled_charsmap")));
    if (bytes.empty()) return {};
    return add_charsmap(std::move(bytes), &Charsmap::apply_to_graphemes);
  } else {
    return unknown_type("a normalizer", type);
  }
  return {};
}

// Replacements of replacements may grow without end.
std::string Normalizer::apply(std::string_view text) const {
  const size_t max_bytes = max_normalized_bytes(text.size());
  std::string out(text);
  for (const Step& step : steps_) {
    if (out.size() > max_bytes) break;
    out = step(out, max_bytes);
  }
  return out;
}

}  // namespace bp::text::huggingface
