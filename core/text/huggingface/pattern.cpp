#include "core/text/huggingface/pattern.hpp"

#include "core/text/huggingface/growth.hpp"
#include "core/text/huggingface/json_fields.hpp"

namespace bp::text::huggingface {

Pattern Pattern::of_text(std::string text) {
  Pattern pattern;
  pattern.text_ = std::move(text);
  return pattern;
}

Pattern Pattern::of_finder(PieceFinder finder) {
  Pattern pattern;
  pattern.finder_ = finder;
  return pattern;
}

Result<Pattern> Pattern::of_regex(const std::string& regex) {
  Pattern pattern;
  if (const auto finders = piece_finders_of(regex); finders.size() == 1) {
    pattern.finder_ = finders[0];
    return pattern;
  }
  BP_ASSIGN(pattern.regex_, Regex::compile_oniguruma(regex));
  return pattern;
}

Result<Pattern> Pattern::parse(const Json& owner) {
  const Json* pattern = member(owner, "pattern");
  if (pattern != nullptr) {
    if (const std::string regex = text_of(*pattern, "Regex"); !regex.empty()) {
      return of_regex(regex);
    }
    if (std::string text = text_of(*pattern, "String"); !text.empty()) {
      return of_text(std::move(text));
    }
  }
  return invalid_argument("tokenizer.json: " + type_of(owner) + " lacks a pattern");
}

Regex::Match Pattern::find(std::string_view text, size_t from) const {
  if (finder_ != nullptr) {
    const char* const begin = text.data();
    if (from == text.size()) return {from, from};
    const PieceMatch match = finder_(CharClasses::get(), begin + from, begin + text.size());
    return {static_cast<size_t>(match.begin - begin), static_cast<size_t>(match.end - begin)};
  }
  if (regex_) return regex_->find(text, from);
  const size_t at = text.find(text_, from);
  if (at == std::string_view::npos) return {text.size(), text.size()};
  return {at, at + text_.size()};
}

std::string Pattern::replace(std::string_view text, std::string_view content,
                             size_t max_bytes) const {
  std::string out;
  size_t at = 0;
  while (at < text.size() && out.size() < max_bytes) {
    const auto match = find(text, at);
    if (match.begin == match.end) break;
    out.append(text.substr(at, match.begin - at)).append(content);
    at = match.end;
  }
  return out.append(text.substr(at));
}

Result<std::string> replacement_of(const Json& step, const char* name) {
  std::string text = text_of(step, name);
  if (text.size() <= kMaxReplacementBytes) return text;
  return invalid_argument("tokenizer.json: " + type_of(step) + " has a " + name + " of " +
                          std::to_string(text.size()) + " bytes; allowed are " +
                          std::to_string(kMaxReplacementBytes));
}

}  // namespace bp::text::huggingface
