#include "core/text/jinja/json.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/text/jinja/formatting.hpp"
#include "core/text/jinja/operators.hpp"
#include "core/text/jinja/runtime.hpp"
#include "core/text/jinja/text_ops.hpp"

namespace bp::text::jinja {
namespace {

Value text_from(Runtime& runtime, const std::string& text) {
  if (!is_valid_utf8(text)) fail("a variable holds text that is not UTF-8");
  return runtime.text(text);
}

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style)
      : runtime_(runtime), style_(style), out_(runtime) {}

  void write(const Value& value) {
    if (value.is_none()) return out_.append("null");
    if (auto* b = value.get<bool>()) return out_.append(*b ? "true" : "false");
    if (auto* n = value.get<Integer>()) return out_.append(format_integer(*n));
    if (auto* d = value.get<double>()) return out_.append(number(*d));
    if (auto* text = value.get<Text>()) return out_.append(quote(text->str()));
    Runtime::Level level(runtime_);
    if (auto* items = sequence_items(value)) return write_list(*items);
    if (auto* dict = value.object<Dict>()) return write_dict(*dict);
    fail(std::string("Object of type ") + type_name(value) + " is not JSON serializable");
  }

  std::string take() { return out_.take(); }

 private:
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return format_float(value);
  }

  std::string quote(const std::string& text) {
    runtime_.spend_characters(text.size());
    std::string out = "\"";
    if (style_.ensure_ascii) {
      for (char32_t c : decode(text)) append_character(out, c);
    } else {
      for (char c : text) append_byte(out, c);
    }
    return out += '"';
  }

  static void append_unit(std::string& out, unsigned unit) {
    constexpr char kHex[] = "0123456789abcdef";
    out += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) out += kHex[(unit >> shift) & 15];
  }

  static void append_byte(std::string& out, char c) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          append_unit(out, static_cast<unsigned char>(c));
        } else {
          out += c;
        }
    }
  }

  void append_character(std::string& out, char32_t c) const {
    if (c < 0x7F) {
      append_byte(out, static_cast<char>(c));
    } else if (runtime_.is_mark(c)) {
      append_utf8(c, out);
    } else if (c < 0x10000) {
      append_unit(out, static_cast<unsigned>(c));
    } else {
      append_unit(out, static_cast<unsigned>(0xD800 + ((c - 0x10000) >> 10)));
      append_unit(out, static_cast<unsigned>(0xDC00 + ((c - 0x10000) & 0x3FF)));
    }
  }

  void open(const char* bracket) {
    out_.append(bracket);
    ++indentation_;
  }
  void close(const char* bracket) {
    --indentation_;
    new_line();
    out_.append(bracket);
  }
  void new_line() {
    if (!style_.indent) return;
    out_.append("\n");
    for (int i = 0; i < indentation_; ++i) out_.append(*style_.indent);
  }
  void separate(bool& first) {
    if (!first) out_.append(style_.item_separator);
    first = false;
    new_line();
  }

  void write_list(const std::vector<Value>& items) {
    if (items.empty()) return out_.append("[]");
    open("[");
    bool first = true;
    for (const Value& item : items) {
      separate(first);
      write(item);
    }
    close("]");
  }

  void write_dict(const Dict& dict) {
    if (dict.entries().empty()) return out_.append("{}");
    auto entries = dict.entries();
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) {
        return less(runtime_, a.first, b.first);
      });
    }
    open("{");
    bool first = true;
    for (const auto& [key, value] : entries) {
      separate(first);
      out_.append(quote(key_text(key)));
      out_.append(style_.key_separator);
      write(value);
    }
    close("}");
  }

  std::string key_text(const Value& key) const {
    if (auto* text = key.get<Text>()) return text->str();
    if (key.is_none()) return "null";
    if (auto* b = key.get<bool>()) return *b ? "true" : "false";
    if (auto* n = key.get<Integer>()) return format_integer(*n);
    if (auto* d = key.get<double>()) return number(*d);
    fail(std::string("keys must be str, int, float, bool or None, not ") + type_name(key));
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  Output out_;
  int indentation_ = 0;
};

}  // namespace

Value from_json(Runtime& runtime, const nlohmann::ordered_json& json) {
  using Kind = nlohmann::ordered_json::value_t;
  Runtime::Level level(runtime);
  switch (json.type()) {
    case Kind::null:
      return Value::none();
    case Kind::boolean:
      return Value::boolean(json.get<bool>());
    case Kind::number_integer:
      return Value::integer(json.get<int64_t>());
    case Kind::number_unsigned:
      return Value::integer(json.get<uint64_t>());
    case Kind::number_float:
      return Value::real(json.get<double>());
    case Kind::string:
      return text_from(runtime, json.get_ref<const std::string&>());
    case Kind::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(from_json(runtime, item));
      return runtime.list(std::move(items));
    }
    case Kind::object: {
      Dict* dict = runtime.dict();
      for (const auto& [key, item] : json.items()) {
        runtime.set(*dict, text_from(runtime, key), from_json(runtime, item));
      }
      return dict;
    }
    default:
      fail("a variable holds a value that JSON does not have");
  }
}

std::string to_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
  JsonWriter writer(runtime, style);
  writer.write(value);
  return writer.take();
}

}  // namespace bp::text::jinja
