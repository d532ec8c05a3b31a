#include "core/text/huggingface/json_fields.hpp"

namespace bp::text::huggingface {
namespace {

constexpr size_t kMaxDepth = 64;

// Of a text that is no JSON, whatever.
bool nests_too_deep(std::string_view text) {
  size_t depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '"':
        for (++i; i < text.size() && text[i] != '"'; ++i) i += text[i] == '\\';
        break;
      case '{':
      case '[':
        if (++depth > kMaxDepth) return true;
        break;
      case '}':
      case ']':
        depth -= depth > 0;
        break;
      default:
        break;
    }
  }
  return false;
}

}  // namespace

Result<Json> parse_object(std::string_view text, std::string_view name) {
  if (nests_too_deep(text)) {
    return invalid_argument(std::string(name) + ": it nests deeper than " +
                            std::to_string(kMaxDepth) + " levels");
  }
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) return json;
  return invalid_argument(std::string(name) + ": no JSON object");
}

}  // namespace bp::text::huggingface
