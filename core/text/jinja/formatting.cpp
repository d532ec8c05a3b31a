#include "core/text/jinja/formatting.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "core/text/jinja/runtime.hpp"
#include "core/text/jinja/text_ops.hpp"

namespace bp::text::jinja {
namespace {

void append_escape(std::string& out, char32_t c) {
  char buffer[12];
  const auto code = static_cast<unsigned>(c);
  std::snprintf(buffer, sizeof buffer,
                c < 0x100     ? "\\x%02x"
                : c < 0x10000 ? "\\u%04x"
                              : "\\U%08x",
                code);
  out += buffer;
}

std::string quote(const Runtime& runtime, std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char mark = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, mark);
  for (char32_t c : decode(text)) {
    if (c == static_cast<char32_t>(mark) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_printable(c) || runtime.is_mark(c)) {
      append_utf8(c, out);
    } else {
      append_escape(out, c);
    }
  }
  return out += mark;
}

class ReprWriter {
 public:
  ReprWriter(Output& out, Runtime& runtime) : out_(out), runtime_(runtime) {}

  void write(const Value& value) {
    if (value.is_undefined()) return out_.append("Undefined");
    if (value.is_none()) return out_.append("None");
    if (auto* b = value.get<bool>()) return out_.append(*b ? "True" : "False");
    if (auto* n = value.get<Integer>()) return out_.append(format_integer(*n));
    if (auto* d = value.get<double>()) return out_.append(format_float(*d));
    if (auto* text = value.get<Text>()) return write_text(*text);
    Runtime::Level level(runtime_);
    write_object(value);
  }

 private:
  void write_text(const Text& text) {
    runtime_.spend_characters(text.str().size());
    const std::string quoted = quote(runtime_, text.str());
    out_.append(text.markup() ? "Markup(" + quoted + ")" : quoted);
  }

  void write_items(const std::vector<Value>& items) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.append(", ");
      write(items[i]);
    }
  }

  void write_dict(const Dict& dict) {
    out_.append("{");
    bool first = true;
    for (const auto& [key, value] : dict.entries()) {
      if (!first) out_.append(", ");
      first = false;
      write(key);
      out_.append(": ");
      write(value);
    }
    out_.append("}");
  }

  void write_object(const Value& value) {
    if (auto* list = value.object<List>()) {
      out_.append("[");
      write_items(list->items);
      out_.append("]");
    } else if (auto* tuple = value.object<Tuple>()) {
      out_.append("(");
      write_items(tuple->items);
      out_.append(tuple->items.size() == 1 ? ",)" : ")");
    } else if (auto* dict = value.object<Dict>()) {
      write_dict(*dict);
    } else if (auto* view = value.object<DictView>()) {
      write_view(value, *view);
    } else if (auto* range = value.object<Range>()) {
      out_.append("range(" + format_integer(range->begin) + ", " + format_integer(range->end) +
                  (range->step == 1 ? "" : ", " + format_integer(range->step)) + ")");
    } else if (auto* ns = value.object<Namespace>()) {
      out_.append("<Namespace ");
      write_dict(*ns->attributes);
      out_.append(">");
    } else {
      out_.append(std::string("<") + type_name(value) + " object>");
    }
  }

  void write_view(const Value& value, const DictView& view) {
    out_.append(std::string(type_name(value)) + "([");
    write_items(iterate_entries(view));
    out_.append("])");
  }

  std::vector<Value> iterate_entries(const DictView& view) {
    std::vector<Value> items;
    for (const auto& [key, value] : view.dict->entries()) {
      switch (view.part) {
        case DictView::Part::kKeys:
          items.push_back(key);
          break;
        case DictView::Part::kValues:
          items.push_back(value);
          break;
        case DictView::Part::kItems:
          items.push_back(runtime_.tuple({key, value}));
          break;
      }
    }
    return items;
  }

  Output& out_;
  Runtime& runtime_;
};

}  // namespace

std::string format_integer(Integer n, unsigned base) {
  const bool negative = n < 0;
  __extension__ typedef unsigned __int128 Unsigned;
  Unsigned rest = negative ? -static_cast<Unsigned>(n) : static_cast<Unsigned>(n);
  std::string digits;
  do {
    digits += "0123456789abcdef"[static_cast<unsigned>(rest % base)];
    rest /= base;
  } while (rest != 0);
  if (negative) digits += '-';
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string format_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string shortest(buffer, end.ptr);
  const int exponent = std::atoi(shortest.c_str() + shortest.find('e') + 1);
  if (exponent < -4 || exponent >= 16) return shortest;
  end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
  std::string fixed(buffer, end.ptr);
  return fixed.find('.') == std::string::npos ? fixed + ".0" : fixed;
}

void write_str(Output& out, Runtime& runtime, const Value& value) {
  if (value.is_undefined()) return;
  if (auto* text = value.get<Text>()) return out.append(text->str());
  ReprWriter(out, runtime).write(value);
}

std::string to_str(Runtime& runtime, const Value& value) {
  Output out(runtime);
  write_str(out, runtime, value);
  return out.take();
}

std::string to_repr(Runtime& runtime, const Value& value) {
  Output out(runtime);
  ReprWriter(out, runtime).write(value);
  return out.take();
}

Text to_text(Runtime& runtime, const Value& value) {
  if (auto* text = value.get<Text>()) return *text;
  return *runtime.text(to_str(runtime, value)).get<Text>();
}

}  // namespace bp::text::jinja
