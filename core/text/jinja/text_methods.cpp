// Methods of str. Positions and lengths count code points.

#include <algorithm>
#include <limits>
#include <string>

#include "core/text/jinja/builtin.hpp"
#include "core/text/jinja/formatting.hpp"
#include "core/text/jinja/operators.hpp"
#include "core/text/jinja/runtime.hpp"
#include "core/text/jinja/text_classes.hpp"
#include "core/text/jinja/text_ops.hpp"
#include "core/text/jinja/text_split.hpp"

namespace bp::text::jinja {
namespace {

constexpr size_t kNone = std::string::npos;

const std::string& str(Runtime& runtime, const Value& self) {
  const std::string& text = self.get<Text>()->str();
  runtime.spend_characters(text.size());
  return text;
}

// Results keep the Markup of their object.
Value like(Runtime& runtime, const Value& self, std::string text) {
  return runtime.text(std::move(text), self.get<Text>()->markup());
}

std::string_view required_text(const BoundArguments& args, size_t i) {
  if (args.is_none(i)) fail(std::string("must be str, not ") + type_name(args.at(i)));
  return args.text(i, "");
}

size_t count_matches(std::string_view text, std::string_view part) {
  if (part.empty()) return count_code_points(text) + 1;
  size_t n = 0;
  for (size_t i = 0; (i = find_first(text, part, i)) != kNone; i += part.size()) ++n;
  return n;
}

// The part of the text between two optional code point positions, and where it begins.
struct Window {
  std::string_view text;
  size_t offset;  // in code points
  bool valid;     // begins within the text
};

Window window(Runtime& runtime, const Value& self, const BoundArguments& args, size_t begin,
              size_t end) {
  const std::string& text = str(runtime, self);
  if (args.is_none(begin) && args.is_none(end)) return {text, 0, true};
  const auto n = static_cast<Integer>(count_code_points(text));
  const auto resolve = [&](size_t i, Integer fallback) {
    const Integer at = args.is_none(i) ? fallback : args.integer(i, fallback);
    return std::max<Integer>(at < 0 ? at + n : at, 0);
  };
  const Integer from = resolve(begin, 0), to = std::min(resolve(end, n), n);
  if (from > to) return {{}, 0, false};
  const size_t first = byte_offset(text, static_cast<size_t>(from));
  const size_t last = byte_offset(text, static_cast<size_t>(to));
  return {std::string_view(text).substr(first, last - first), static_cast<size_t>(from), true};
}

Integer search(Runtime& runtime, const Value& self, const BoundArguments& args, bool from_right) {
  const Window w = window(runtime, self, args, 1, 2);
  const std::string_view part = required_text(args, 0);
  if (!w.valid) return -1;
  const size_t hit = from_right ? find_last(w.text, part) : find_first(w.text, part);
  if (hit == kNone) return -1;
  return static_cast<Integer>(w.offset + count_code_points(w.text.substr(0, hit)));
}

Value find(Runtime& runtime, const Value& self, BoundArguments& args) {
  return Value::integer(search(runtime, self, args, false));
}
Value rfind(Runtime& runtime, const Value& self, BoundArguments& args) {
  return Value::integer(search(runtime, self, args, true));
}
Value index(Runtime& runtime, const Value& self, BoundArguments& args) {
  const Integer hit = search(runtime, self, args, false);
  if (hit < 0) fail("substring not found");
  return Value::integer(hit);
}
Value rindex(Runtime& runtime, const Value& self, BoundArguments& args) {
  const Integer hit = search(runtime, self, args, true);
  if (hit < 0) fail("substring not found");
  return Value::integer(hit);
}
Value count(Runtime& runtime, const Value& self, BoundArguments& args) {
  const Window w = window(runtime, self, args, 1, 2);
  const std::string_view part = required_text(args, 0);
  return Value::integer(w.valid ? static_cast<Integer>(count_matches(w.text, part)) : 0);
}

// startswith and endswith take one affix or a tuple of them.
template <class Predicate>
Value has_affix(Runtime& runtime, const Value& self, const BoundArguments& args,
                Predicate matches) {
  const Window w = window(runtime, self, args, 1, 2);
  if (!w.valid) return Value::boolean(false);
  if (auto* tuple = args.at(0).object<Tuple>()) {
    for (const Value& item : tuple->items) {
      auto* affix = item.get<Text>();
      if (!affix) fail(std::string("tuple must only contain str, not ") + type_name(item));
      runtime.spend_bytes(std::min(affix->str().size(), w.text.size()));
      if (matches(w.text, std::string_view(affix->str()))) return Value::boolean(true);
    }
    return Value::boolean(false);
  }
  return Value::boolean(matches(w.text, required_text(args, 0)));
}
Value startswith(Runtime& runtime, const Value& self, BoundArguments& args) {
  return has_affix(runtime, self, args,
                   [](auto text, auto affix) { return text.substr(0, affix.size()) == affix; });
}
Value endswith(Runtime& runtime, const Value& self, BoundArguments& args) {
  return has_affix(runtime, self, args, [](auto text, auto affix) {
    return text.size() >= affix.size() && text.substr(text.size() - affix.size()) == affix;
  });
}
Value removeprefix(Runtime& runtime, const Value& self, BoundArguments& args) {
  const std::string& text = str(runtime, self);
  const std::string_view prefix = required_text(args, 0);
  const bool has = std::string_view(text).substr(0, prefix.size()) == prefix;
  return like(runtime, self, text.substr(has ? prefix.size() : 0));
}
Value removesuffix(Runtime& runtime, const Value& self, BoundArguments& args) {
  const std::string& text = str(runtime, self);
  const std::string_view suffix = required_text(args, 0);
  const bool has = text.size() >= suffix.size() &&
                   text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
  const size_t size = text.size() - (has ? suffix.size() : 0);
  return like(runtime, self, runtime.cut(std::string_view(text).substr(0, size)));
}

Value strip_side(Runtime& runtime, const Value& self, const BoundArguments& args, Side side) {
  const std::string& text = str(runtime, self);
  if (args.is_none(0)) return like(runtime, self, runtime.cut(strip(text, side)));
  const std::string_view characters = args.text(0, "");
  runtime.spend_characters(characters.size());
  return like(runtime, self, runtime.cut(strip(text, decode(characters), side)));
}
Value lstrip(Runtime& runtime, const Value& self, BoundArguments& args) {
  return strip_side(runtime, self, args, Side::kLeft);
}
Value rstrip(Runtime& runtime, const Value& self, BoundArguments& args) {
  return strip_side(runtime, self, args, Side::kRight);
}
Value strip_both(Runtime& runtime, const Value& self, BoundArguments& args) {
  return strip_side(runtime, self, args, Side::kBoth);
}

template <std::string (*map)(std::string_view)>
Value mapped(Runtime& runtime, const Value& self, BoundArguments&) {
  return like(runtime, self, map(str(runtime, self)));
}
template <bool (*predicate)(std::string_view)>
Value satisfies(Runtime& runtime, const Value& self, BoundArguments&) {
  return Value::boolean(predicate(str(runtime, self)));
}

Value pad(Runtime& runtime, const Value& self, const BoundArguments& args, char align) {
  FormatSpec spec;
  spec.align = align;
  const std::u32string fill = decode(args.text(1, " "));
  if (fill.size() != 1) fail("The fill character must be exactly one character long");
  spec.fill = fill[0];
  const Integer width = std::clamp<Integer>(args.integer(0, 0), 0, 1 << 30);
  const auto n = static_cast<Integer>(count_code_points(str(runtime, self)));
  // str.center puts the odd cell left of text of odd width; format() always right.
  const bool odd_left = align == '^' && width > n && (width - n) % 2 != 0 && width % 2 != 0;
  spec.width = static_cast<size_t>(odd_left ? width - 1 : width);
  const Value text = runtime.text(self.get<Text>()->str());
  std::string padded = format_value(runtime, text, spec);
  return like(runtime, self, odd_left ? encode(fill) + padded : padded);
}
Value center(Runtime& runtime, const Value& self, BoundArguments& args) {
  return pad(runtime, self, args, '^');
}
Value ljust(Runtime& runtime, const Value& self, BoundArguments& args) {
  return pad(runtime, self, args, '<');
}
Value rjust(Runtime& runtime, const Value& self, BoundArguments& args) {
  return pad(runtime, self, args, '>');
}
Value zfill(Runtime& runtime, const Value& self, BoundArguments& args) {
  std::string text = str(runtime, self);
  const auto n = static_cast<Integer>(count_code_points(text));
  const Integer width = args.integer(0, 0);
  if (width <= n) return self;
  if (width > static_cast<Integer>(runtime.options().max_output_bytes)) fail_limit("zfill: width");
  const bool sign = !text.empty() && (text[0] == '-' || text[0] == '+');
  text.insert(sign ? 1 : 0, static_cast<size_t>(width - n), '0');
  return like(runtime, self, std::move(text));
}

// replace() where there is a mark. What takes the place of a marked word is marked like it.
std::string replace_cut(Runtime& runtime, std::string_view text, std::string_view from,
                        std::string_view to, size_t limit) {
  runtime.spend(limit / 2);
  const std::string marked_to = runtime.cut(to);
  std::string out;
  size_t at = 0;
  for (; limit > 0; --limit) {
    const size_t hit = find_first(text, from, at);
    if (hit == kNone) break;
    const std::string_view kept = text.substr(at, hit - at);
    out += runtime.cut(kept);
    if (!to.empty() && kept.ends_with(runtime.mark())) out += runtime.mark();
    out += marked_to;
    at = hit + from.size();
  }
  return out.append(text, at);
}

Value replace_method(Runtime& runtime, const Value& self, BoundArguments& args) {
  const std::string& text = str(runtime, self);
  const std::string_view from = required_text(args, 0), to = required_text(args, 1);
  const Integer given = args.integer(2, -1);
  const size_t matches = count_matches(text, from);
  const size_t limit =
      given < 0 || given > static_cast<Integer>(matches) ? matches : static_cast<size_t>(given);
  if (to.size() > 0 && limit > runtime.options().max_output_bytes / to.size()) {
    fail_limit("text longer than the output limit");
  }
  runtime.spend(limit / 16);
  if (runtime.mark().empty() || from.empty()) {
    return like(runtime, self, replace(text, from, to, limit));
  }
  return like(runtime, self, replace_cut(runtime, text, from, to, limit));
}

Value expandtabs(Runtime& runtime, const Value& self, BoundArguments& args) {
  const Integer size = args.integer(0, 8);
  if (size > 1024) fail("expandtabs: too wide");
  Output out(runtime);
  Integer column = 0;
  for (char32_t c : decode(str(runtime, self))) {
    if (c == U'\t') {
      const Integer n = size > 0 ? size - column % size : 0;
      out.append(std::string(static_cast<size_t>(n), ' '));
      column += n;
      continue;
    }
    column = c == U'\n' || c == U'\r' ? 0 : column + 1;
    out.append(encode(std::u32string(1, c)));
  }
  return like(runtime, self, out.take());
}

Value format(Runtime& runtime, const Value& self, BoundArguments& args) {
  return format_braces(runtime, *self.get<Text>(), args.rest);
}
Value format_map(Runtime& runtime, const Value& self, BoundArguments& args) {
  auto* dict = args.at(0).object<Dict>();
  if (!dict) fail("format_map() expects a dict");
  Arguments named;
  for (const auto& [key, value] : dict->entries()) {
    named.named.emplace_back(to_text(runtime, key), value);
  }
  return format_braces(runtime, *self.get<Text>(), named);
}

Value join(Runtime& runtime, const Value& self, BoundArguments& args) {
  const Text& separator = *self.get<Text>();
  Output out(runtime);
  size_t i = 0;
  for (const Value& item : iterate(runtime, args.at(0))) {
    auto* text = item.get<Text>();
    if (!text) {
      fail("sequence item " + std::to_string(i) + ": expected str instance, " + type_name(item) +
           " found");
    }
    if (i++ > 0) out.append(separator.str());
    out.append(separator.markup() && !text->markup() ? escape_html(text->str()) : text->str());
  }
  return runtime.text(out.take(), separator.markup());
}

Value pieces(Runtime& runtime, const Value& self, const std::vector<std::string_view>& parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (std::string_view part : parts) items.push_back(like(runtime, self, runtime.cut(part)));
  return runtime.list(std::move(items));
}

Value split_side(Runtime& runtime, const Value& self, const BoundArguments& args, bool from_right) {
  const Integer given = args.is_none(1) ? -1 : args.integer(1, -1);
  const size_t limit =
      given < 0 || given > std::numeric_limits<int>::max() ? kNone : static_cast<size_t>(given);
  const std::string& text = str(runtime, self);
  if (args.is_none(0)) return pieces(runtime, self, split_words(text, limit, from_right));
  const std::string_view separator = args.text(0, "");
  if (separator.empty()) fail("empty separator");
  return pieces(runtime, self, split_text(text, separator, limit, from_right));
}
Value split(Runtime& runtime, const Value& self, BoundArguments& args) {
  return split_side(runtime, self, args, false);
}
Value rsplit(Runtime& runtime, const Value& self, BoundArguments& args) {
  return split_side(runtime, self, args, true);
}
Value splitlines(Runtime& runtime, const Value& self, BoundArguments& args) {
  return pieces(runtime, self, split_lines(str(runtime, self), args.flag(0, false)));
}

Value partition_at(Runtime& runtime, const Value& self, const BoundArguments& args, bool right) {
  const std::string_view text = str(runtime, self);
  const std::string_view separator = required_text(args, 0);
  if (separator.empty()) fail("empty separator");
  const size_t hit = right ? find_last(text, separator) : find_first(text, separator);
  const auto part = [&](std::string_view s) { return like(runtime, self, runtime.cut(s)); };
  if (hit != kNone) {
    return runtime.tuple(
        {part(text.substr(0, hit)), part(separator), part(text.substr(hit + separator.size()))});
  }
  return runtime.tuple(right ? std::vector<Value>{part(""), part(""), self}
                             : std::vector<Value>{self, part(""), part("")});
}
Value partition(Runtime& runtime, const Value& self, BoundArguments& args) {
  return partition_at(runtime, self, args, false);
}
Value rpartition(Runtime& runtime, const Value& self, BoundArguments& args) {
  return partition_at(runtime, self, args, true);
}

constexpr Builtin kMethods[] = {
    {"capitalize", mapped<capitalize>},
    {"casefold", mapped<fold_case>},
    {"center", center, "width fillchar", 1},
    {"count", count, "sub start end", 1},
    {"endswith", endswith, "suffix start end", 1},
    {"expandtabs", expandtabs, "tabsize"},
    {"find", find, "sub start end", 1},
    {"format", format, "*"},
    {"format_map", format_map, "mapping", 1},
    {"index", index, "sub start end", 1},
    {"isalnum", satisfies<is_alnum_text>},
    {"isalpha", satisfies<is_alpha_text>},
    {"isascii", satisfies<is_ascii>},
    {"isdecimal", satisfies<is_decimal_text>},
    {"isdigit", satisfies<is_digit_text>},
    {"isidentifier", satisfies<is_identifier_text>},
    {"islower", satisfies<is_lower_text>},
    {"isnumeric", satisfies<is_numeric_text>},
    {"isprintable", satisfies<is_printable_text>},
    {"isspace", satisfies<is_space_text>},
    {"istitle", satisfies<is_title_text>},
    {"isupper", satisfies<is_upper_text>},
    {"join", join, "iterable", 1},
    {"ljust", ljust, "width fillchar", 1},
    {"lower", mapped<to_lower>},
    {"lstrip", lstrip, "chars"},
    {"partition", partition, "sep", 1},
    {"removeprefix", removeprefix, "prefix", 1},
    {"removesuffix", removesuffix, "suffix", 1},
    {"replace", replace_method, "old new count", 2},
    {"rfind", rfind, "sub start end", 1},
    {"rindex", rindex, "sub start end", 1},
    {"rjust", rjust, "width fillchar", 1},
    {"rpartition", rpartition, "sep", 1},
    {"rsplit", rsplit, "sep maxsplit"},
    {"rstrip", rstrip, "chars"},
    {"split", split, "sep maxsplit"},
    {"splitlines", splitlines, "keepends"},
    {"startswith", startswith, "prefix start end", 1},
    {"strip", strip_both, "chars"},
    {"swapcase", mapped<swap_case>},
    {"title", mapped<title_case>},
    {"upper", mapped<to_upper>},
    {"zfill", zfill, "width", 1},
};
static_assert(is_sorted_table(kMethods));

}  // namespace

std::span<const Builtin> text_methods() {
  return kMethods;
}

}  // namespace bp::text::jinja
