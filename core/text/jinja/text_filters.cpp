// Filters on text.

#include <algorithm>
#include <string>

#include "core/text/jinja/builtin.hpp"
#include "core/text/jinja/formatting.hpp"
#include "core/text/jinja/json.hpp"
#include "core/text/jinja/operators.hpp"
#include "core/text/jinja/runtime.hpp"
#include "core/text/jinja/text_ops.hpp"

namespace bp::text::jinja {
namespace {

// The method of str with this name, on the value as text.
Value call_text_method(Runtime& runtime, std::string_view name, const Value& self,
                       std::vector<Value> arguments = {}) {
  return call_builtin(runtime, *find_in_table(text_methods(), name), to_text(runtime, self),
                      {std::move(arguments), {}});
}

Value capitalize_filter(Runtime& runtime, const Value& self, BoundArguments&) {
  return call_text_method(runtime, "capitalize", self);
}

Value center(Runtime& runtime, const Value& self, BoundArguments& args) {
  return call_text_method(runtime, "center", self, {Value::integer(args.integer(0, 80))});
}

Value escape(Runtime& runtime, const Value& self, BoundArguments&) {
  const Text text = to_text(runtime, self);
  if (text.markup()) return text;
  runtime.spend_characters(text.str().size());
  runtime.check_text_size(text.str().size() * 5);
  return runtime.text(escape_html(text.str()), true);
}

Value force_escape(Runtime& runtime, const Value& self, BoundArguments&) {
  const Text text = to_text(runtime, self);
  runtime.spend_characters(text.str().size());
  runtime.check_text_size(text.str().size() * 5);
  return runtime.text(escape_html(text.str()), true);
}

Value format(Runtime& runtime, const Value& self, BoundArguments& args) {
  if (!args.rest.positional.empty() && !args.rest.named.empty()) {
    fail("can't handle positional and keyword arguments at the same time");
  }
  if (args.rest.named.empty()) {
    return format_percent(runtime, to_text(runtime, self),
                          runtime.tuple(std::move(args.rest.positional)));
  }
  Dict* dict = runtime.dict();
  for (auto& [name, value] : args.rest.named) runtime.set(*dict, name, value);
  return format_percent(runtime, to_text(runtime, self), dict);
}

Value indent(Runtime& runtime, const Value& self, BoundArguments& args) {
  require_defined(self);
  auto* text = self.get<Text>();
  if (!text) fail(std::string("indent expects a str, not ") + type_name(self));
  std::string indention;
  if (auto* width = args.at(0).get<Text>()) {
    indention = width->str();
  } else {
    const Integer n = std::max<Integer>(args.integer(0, 4), 0);
    if (n > 10'000) fail("indent is too wide");
    indention.assign(static_cast<size_t>(n), ' ');
  }
  const bool first = args.flag(1, false), blank = args.flag(2, false);
  runtime.spend_characters(text->str().size());
  Output out(runtime);
  bool is_first = true;
  const std::string with_newline = text->str() + "\n";
  for (std::string_view line : split_lines(with_newline, false)) {
    if (!is_first) out.append("\n");
    if (is_first ? first : (blank || !line.empty())) out.append(indention);
    out.append(line);
    is_first = false;
  }
  return runtime.text(out.take(), text->markup());
}

Value join(Runtime& runtime, const Value& self, BoundArguments& args) {
  const std::string separator = args.find(0) ? to_str(runtime, args.at(0)) : "";
  Output out(runtime);
  bool first = true;
  for (Value item : iterate(runtime, self)) {
    if (!args.is_none(1)) item = get_path(runtime, item, args.at(1));
    if (!first) out.append(separator);
    first = false;
    write_str(out, runtime, item);
  }
  return runtime.text(out.take());
}

Value lower(Runtime& runtime, const Value& self, BoundArguments&) {
  return call_text_method(runtime, "lower", self);
}

Value replace_filter(Runtime& runtime, const Value& self, BoundArguments& args) {
  std::vector<Value> arguments = {to_text(runtime, args.at(0)), to_text(runtime, args.at(1))};
  if (!args.is_none(2)) arguments.push_back(args.at(2));
  return call_text_method(runtime, "replace", runtime.text(to_str(runtime, self)),
                          std::move(arguments));
}

Value safe(Runtime& runtime, const Value& self, BoundArguments&) {
  return runtime.text(to_str(runtime, self), true);
}

Value string(Runtime& runtime, const Value& self, BoundArguments&) {
  return to_text(runtime, self);
}

Value striptags(Runtime& runtime, const Value& self, BoundArguments&) {
  const std::string source = to_str(runtime, self);
  runtime.spend_characters(source.size());
  std::string kept;
  bool in_tag = false;
  for (char c : source) {
    if (c == '<') in_tag = true;
    if (!in_tag) kept += c;
    if (c == '>') in_tag = false;
  }
  std::string out;
  for (std::string_view rest = strip(kept); !rest.empty();) {
    const size_t end = std::min(rest.find_first_of(" \t\r\n\f\v"), rest.size());
    if (!out.empty()) out += ' ';
    out += rest.substr(0, end);
    rest = strip(rest.substr(end));
  }
  return runtime.text(unescape_html(out));
}

// Upper case after the start and after -, white space and opening brackets.
Value title(Runtime& runtime, const Value& self, BoundArguments&) {
  const std::u32string text = decode(to_text(runtime, self).str());
  runtime.spend(text.size() / 2);
  constexpr std::u32string_view kBoundaries = U"-({[<";
  std::string out;
  bool start = true;
  for (char32_t c : text) {
    const std::string one = encode(std::u32string(1, c));
    out += start ? to_upper(one) : to_lower(one);
    start = is_space(c) || kBoundaries.find(c) != std::u32string_view::npos;
  }
  return runtime.text(std::move(out));
}

JsonStyle json_style(Runtime& runtime, BoundArguments& args) {
  JsonStyle style;
  style.ensure_ascii = args.flag(0, false);
  style.sort_keys = args.flag(3, false);
  if (!args.is_none(1)) {
    if (auto* text = args.at(1).get<Text>()) {
      style.indent = text->str();
    } else {
      const Integer n = std::clamp<Integer>(args.integer(1, 0), 0, 1024);
      style.indent = std::string(static_cast<size_t>(n), ' ');
    }
    style.item_separator.resize(1);  // no space before a line end
  }
  if (!args.is_none(2)) {
    const auto separators = iterate(runtime, args.at(2));
    if (separators.size() != 2) fail("tojson: separators are a pair");
    style.item_separator = to_str(runtime, separators[0]);
    style.key_separator = to_str(runtime, separators[1]);
  }
  return style;
}

Value tojson(Runtime& runtime, const Value& self, BoundArguments& args) {
  return runtime.text(to_json(runtime, self, json_style(runtime, args)));
}

Value trim(Runtime& runtime, const Value& self, BoundArguments& args) {
  return call_text_method(runtime, "strip", self,
                          args.is_none(0) ? std::vector<Value>{} : std::vector{args.at(0)});
}

Value truncate(Runtime& runtime, const Value& self, BoundArguments& args) {
  auto* text = self.get<Text>();
  if (text) runtime.spend_characters(text->str().size());
  const std::string end(args.text(2, "..."));
  const Integer length = args.integer(0, 255);
  const Integer leeway = args.is_none(3) ? 5 : args.integer(3, 5);
  const auto end_length = static_cast<Integer>(count_code_points(end));
  if (length < end_length) fail("truncate: length is shorter than its end");
  if (leeway < 0) fail("truncate: leeway is negative");
  const size_t size = text ? count_code_points(text->str()) : jinja::length(self);
  if (static_cast<Integer>(size) - leeway <= length) return self;
  if (!text) fail(std::string("truncate expects a str, not ") + type_name(self));
  const size_t kept = byte_offset(text->str(), static_cast<size_t>(length - end_length));
  std::string out = text->str().substr(0, kept);
  if (!args.flag(1, false)) out.resize(std::min(out.rfind(' '), out.size()));
  return runtime.text(out + end, text->markup());
}

Value upper(Runtime& runtime, const Value& self, BoundArguments&) {
  return call_text_method(runtime, "upper", self);
}

void append_url_byte(std::string& out, char c, bool query) {
  constexpr std::string_view kSafe = "_.-~", kHex = "0123456789ABCDEF";
  const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     kSafe.find(c) != std::string_view::npos || (c == '/' && !query);
  const auto byte = static_cast<unsigned char>(c);
  if (plain) {
    out += c;
  } else if (c == ' ' && query) {
    out += '+';
  } else {
    out += {'%', kHex[byte >> 4], kHex[byte & 15]};
  }
}

std::string quote_url(const Runtime& runtime, std::string_view text, bool query) {
  std::string out;
  for (char32_t c : decode(text)) {
    std::string bytes;
    append_utf8(c, bytes);
    if (runtime.is_mark(c)) {
      out += bytes;
    } else {
      for (char byte : bytes) append_url_byte(out, byte, query);
    }
  }
  return out;
}

Value urlencode(Runtime& runtime, const Value& self, BoundArguments&) {
  if (self.get<Text>() || !is_iterable(self)) {
    const std::string text = to_str(runtime, self);
    runtime.spend_characters(text.size());
    runtime.check_text_size(text.size() * 3);
    return runtime.text(quote_url(runtime, text, false));
  }
  const Value pairs =
      self.object<Dict>()
          ? Value(runtime.make<DictView>(self.object<Dict>(), DictView::Part::kItems))
          : self;
  Output out(runtime);
  bool first = true;
  for (const Value& pair : iterate(runtime, pairs)) {
    const auto parts = iterate(runtime, pair);
    if (parts.size() != 2) fail("urlencode expects pairs");
    if (!first) out.append("&");
    first = false;
    out.append(quote_url(runtime, to_str(runtime, parts[0]), true));
    out.append("=");
    out.append(quote_url(runtime, to_str(runtime, parts[1]), true));
  }
  return runtime.text(out.take());
}

Value wordcount(Runtime& runtime, const Value& self, BoundArguments&) {
  const Text text = to_text(runtime, self);
  runtime.spend(text.str().size() / 4);
  Integer words = 0;
  bool inside = false;
  for (char32_t c : decode(text.str())) {
    const bool word = is_word(c);
    if (word && !inside) ++words;
    inside = word;
  }
  return Value::integer(words);
}

constexpr Builtin kFilters[] = {
    {"capitalize", capitalize_filter},
    {"center", center, "width"},
    {"e", escape},
    {"escape", escape},
    {"forceescape", force_escape},
    {"format", format, "*"},
    {"indent", indent, "width first blank"},
    {"join", join, "d attribute"},
    {"lower", lower},
    {"replace", replace_filter, "old new count", 2},
    {"safe", safe},
    {"string", string},
    {"striptags", striptags},
    {"title", title},
    {"tojson", tojson, "ensure_ascii indent separators sort_keys"},
    {"trim", trim, "chars"},
    {"truncate", truncate, "length killwords end leeway"},
    {"upper", upper},
    {"urlencode", urlencode},
    {"wordcount", wordcount},
};
static_assert(is_sorted_table(kFilters));

}  // namespace

std::span<const Builtin> text_filters() {
  return kFilters;
}

}  // namespace bp::text::jinja
