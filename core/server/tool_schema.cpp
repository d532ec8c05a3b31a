#include "core/server/tool_schema.hpp"

#include <algorithm>
#include <boost/algorithm/string/replace.hpp>
#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_set>

namespace bp::server {

namespace {

using Json = nlohmann::ordered_json;

// References may form circles: of one property each schema is looked at once. Many properties may
// refer to much: how deep and how much is looked at have limits, beyond which only what a property
// itself says counts.
class TextSchemas {
 public:
  explicit TextSchemas(const Json& root) : root_(root) {}

  bool allows_text(const Json& property) {
    followed_.clear();
    return allows_text(property, 0);
  }

 private:
  static constexpr uint32_t kMaxDepth = 16;
  static constexpr size_t kMaxLooks = size_t{1} << 18;
  static constexpr const char* kBranches[] = {"anyOf", "oneOf", "allOf"};

  bool allows_text(const Json& schema, uint32_t depth) {
    if (!schema.is_object() || depth > kMaxDepth) return false;
    if (depth > 0 && !spend(schema.size())) return false;
    // A type decides alone: whatever else stands there can only narrow it.
    if (const Json* type = find(schema, "type")) return has_text_type(*type);
    if (const Json* constant = find(schema, "const")) return constant->is_string();
    if (const Json* values = find(schema, "enum")) return are_texts(*values);
    const Json* target = follow(find(schema, "$ref"));
    if (target != nullptr && followed_.insert(target).second && allows_text(*target, depth + 1)) {
      return true;
    }
    return std::ranges::any_of(kBranches, [&](const char* key) {
      const Json* branches = find(schema, key);
      return branches != nullptr && branches->is_array() &&
             std::ranges::any_of(*branches,
                                 [&](const Json& one) { return allows_text(one, depth + 1); });
    });
  }

  bool spend(size_t n) {
    n_looks_ += n + 1;
    return n_looks_ <= kMaxLooks;
  }

  static const Json* find(const Json& object, const std::string& key) {
    const auto at = object.find(key);
    return at == object.end() ? nullptr : &*at;
  }

  // {"type": "string"}, also as one of several types.
  bool has_text_type(const Json& type) {
    return type == "string" || (type.is_array() && spend(type.size()) &&
                                std::ranges::find(type, "string") != type.end());
  }

  // Texts only, but for null.
  bool are_texts(const Json& values) {
    if (!values.is_array() || !spend(values.size())) return false;
    const auto is_text = [](const Json& value) { return value.is_string(); };
    return std::ranges::any_of(values, is_text) &&
           std::ranges::all_of(
               values, [&](const Json& value) { return value.is_null() || is_text(value); });
  }

  // Where "#/a/b" points to; null for anything else.
  const Json* follow(const Json* reference) {
    if (reference == nullptr || !reference->is_string()) return nullptr;
    std::string_view path = reference->get_ref<const std::string&>();
    if (!path.starts_with('#')) return nullptr;
    path.remove_prefix(1);
    const Json* at = &root_;
    while (at != nullptr && path.starts_with('/')) {
      path.remove_prefix(1);
      const std::string_view step = path.substr(0, path.find('/'));
      path.remove_prefix(step.size());
      at = member(*at, step);
    }
    return path.empty() ? at : nullptr;
  }

  const Json* member(const Json& value, std::string_view step) {
    if (value.is_array()) {
      size_t i = 0;
      const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), i);
      const bool is_index = error == std::errc() && end == step.data() + step.size();
      return is_index && i < value.size() ? &value[i] : nullptr;
    }
    if (!value.is_object() || !spend(value.size() + step.size())) return nullptr;
    return find(value, unescaped(step));
  }

  // ~0 and ~1 stand for ~ and /, and %xx for any byte.
  static std::string unescaped(std::string_view step) {
    std::string key;
    for (size_t i = 0; i < step.size(); ++i) {
      uint8_t byte = 0;
      const char* const digits = step.data() + i + 1;
      if (step[i] == '%' && step.size() - i > 2 &&
          std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
        key += static_cast<char>(byte);
        i += 2;
      } else {
        key += step[i];
      }
    }
    boost::replace_all(key, "~1", "/");
    boost::replace_all(key, "~0", "~");
    return key;
  }

  const Json& root_;
  std::unordered_set<const Json*> followed_;
  size_t n_looks_ = 0;
};

}  // namespace

std::vector<text::chat::ToolParameter> tool_parameters(const Json& schema) {
  std::vector<text::chat::ToolParameter> parameters;
  if (!schema.contains("properties") || !schema["properties"].is_object()) return parameters;
  TextSchemas schemas(schema);
  for (const auto& [name, property] : schema["properties"].items()) {
    parameters.push_back({name, schemas.allows_text(property)});
  }
  return parameters;
}

}  // namespace bp::server
