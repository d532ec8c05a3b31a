// Filters on numbers, and the conversions int and float.

#include <charconv>
#include <cmath>
#include <optional>
#include <string>

#include "core/text/jinja/builtin.hpp"
#include "core/text/jinja/formatting.hpp"
#include "core/text/jinja/operators.hpp"
#include "core/text/jinja/runtime.hpp"
#include "core/text/jinja/text_ops.hpp"

namespace bp::text::jinja {
namespace {

// Without single underscores between digits; none where an underscore stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
    } else if (i == 0 || i + 1 == text.size() || text[i - 1] == '_') {
      return std::nullopt;
    }
  }
  return out;
}

std::optional<Integer> parse_integer(std::string_view text, int base) {
  text = strip(text);
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  const std::string lead = to_lower(text.substr(0, 2));
  const int prefix = lead == "0x" ? 16 : lead == "0o" ? 8 : lead == "0b" ? 2 : 0;
  if (prefix && (base == prefix || base == 0)) {
    text.remove_prefix(2);
    base = prefix;
  }
  const auto digits = without_underscores(text);
  if (!digits || digits->empty()) return std::nullopt;
  if (base == 0) base = 10;
  Integer number = 0;
  for (char c : *digits) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 10
                      : c >= 'A' && c <= 'Z' ? c - 'A' + 10
                                             : 99;
    if (digit >= base) return std::nullopt;
    if (__builtin_mul_overflow(number, static_cast<Integer>(base), &number) ||
        __builtin_add_overflow(number, static_cast<Integer>(digit), &number)) {
      fail("integer too large");
    }
  }
  return negative ? -number : number;
}

std::optional<double> parse_float(std::string_view text) {
  const auto digits = without_underscores(strip(text));
  if (!digits || digits->empty()) return std::nullopt;
  std::string_view rest = *digits;
  const bool negative = rest[0] == '-';
  if (rest[0] == '-' || rest[0] == '+') rest.remove_prefix(1);
  if (rest.empty() || rest[0] == '-') return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (end != rest.data() + rest.size() || rest.find('(') != std::string_view::npos) {
    return std::nullopt;
  }
  if (error == std::errc::result_out_of_range) {
    const size_t e = rest.find_first_of("eE");
    value = e != std::string_view::npos && rest[e + 1] == '-' ? 0.0 : HUGE_VAL;
  } else if (error != std::errc()) {
    return std::nullopt;
  }
  return negative ? -value : value;
}

// int(float): none for what Python answers with ValueError.
std::optional<Integer> truncate(double value) {
  if (std::isnan(value)) return std::nullopt;
  if (std::isinf(value)) fail("cannot convert float infinity to integer");
  if (std::fabs(value) >= 1.7e38) fail("integer too large");
  return static_cast<Integer>(value);
}

Value int_filter(Runtime& runtime, const Value& self, BoundArguments& args) {
  require_defined(self);
  const Value fallback = args.find(0) ? args.at(0) : Value::integer(0);
  const Integer base = args.integer(1, 10);
  if (base < 0 || base == 1 || base > 36) return fallback;
  std::optional<Integer> number;
  Integer storage = 0;
  if (auto* text = self.get<Text>()) {
    runtime.spend_characters(text->str().size());
    number = parse_integer(text->str(), static_cast<int>(base));
    if (!number) {
      if (const auto real = parse_float(text->str())) number = truncate(*real);
    }
  } else if (auto* d = self.get<double>()) {
    number = truncate(*d);
  } else if (const Integer* n = integer_or_bool(self, storage)) {
    number = *n;
  }
  return number ? Value::integer(*number) : fallback;
}

Value float_filter(Runtime& runtime, const Value& self, BoundArguments& args) {
  require_defined(self);
  if (is_number(self)) return Value::real(to_double(self));
  if (auto* text = self.get<Text>()) {
    runtime.spend_characters(text->str().size());
    if (const auto value = parse_float(text->str())) return Value::real(*value);
  }
  return args.find(0) ? args.at(0) : Value::real(0.0);
}

Value abs_filter(Runtime&, const Value& self, BoundArguments&) {
  require_defined(self);
  if (auto* d = self.get<double>()) return Value::real(std::fabs(*d));
  Integer storage = 0;
  const Integer* n = integer_or_bool(self, storage);
  if (!n) fail(std::string("bad operand type for abs(): '") + type_name(self) + "'");
  return *n < 0 ? negate(Value::integer(*n)) : Value::integer(*n);
}

// round(float, places): half to even on the exact binary value, as printf rounds.
double round_places(double value, int places) {
  if (!std::isfinite(value) || places > 300) return value;
  if (places < 0) {
    const double unit = std::pow(10.0, -places);
    return std::nearbyint(value / unit) * unit;
  }
  char buffer[700];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, places);
  double rounded = value;
  std::from_chars(buffer, end.ptr, rounded);
  return rounded;
}

Value round_integer(Integer n, Integer places) {
  if (places >= 0) return Value::integer(n);
  if (places < -37) return Value::integer(0);
  const Integer unit = checked_pow(10, -places);
  const Integer down = floor_divide(n, unit) * unit;
  const Integer twice = (n - down) * 2;
  const bool up = twice > unit || (twice == unit && (down / unit) % 2 != 0);
  return Value::integer(up ? down + unit : down);
}

Value round_filter(Runtime&, const Value& self, BoundArguments& args) {
  require_defined(self);
  if (!is_number(self)) {
    fail(std::string("type ") + type_name(self) + " doesn't define __round__ method");
  }
  const Integer places = args.integer(0, 0);
  if (places < -400 || places > 400) fail("round: precision out of range");
  const std::string_view method = args.text(1, "common");
  if (method == "common") {
    Integer storage = 0;
    if (const Integer* n = integer_or_bool(self, storage)) return round_integer(*n, places);
    return Value::real(round_places(to_double(self), static_cast<int>(places)));
  }
  if (method != "ceil" && method != "floor") fail("method must be common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(places));
  const double scaled = to_double(self) * unit;
  // Python's ceil and floor give integers, of which none is a negative zero.
  return Value::real(((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) + 0.0) / unit);
}

Value filesizeformat(Runtime& runtime, const Value& self, BoundArguments& args) {
  require_defined(self);
  if (!is_number(self) && !self.get<Text>()) {
    fail(std::string("float() argument must be a string or a real number, not '") +
         type_name(self) + "'");
  }
  double bytes = is_number(self) ? to_double(self) : 0;
  if (auto* text = self.get<Text>()) {
    runtime.spend_characters(text->str().size());
    const auto parsed = parse_float(text->str());
    if (!parsed) fail("could not convert string to float");
    bytes = *parsed;
  }
  const bool binary = args.flag(0, false);
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return runtime.text("1 Byte");
  if (!(std::fabs(bytes) < 1e38)) fail("file size out of range");
  if (bytes < base) return runtime.text(format_integer(static_cast<Integer>(bytes)) + " Bytes");
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  size_t i = 0;
  for (bytes /= base; bytes >= base && i + 1 < kPrefixes.size(); ++i) bytes /= base;
  std::string unit(1, binary && i == 0 ? 'K' : kPrefixes[i]);
  const FormatSpec one_place{.precision = 1, .type = 'f'};
  return runtime.text(format_value(runtime, Value::real(bytes), one_place) + " " + unit +
                      (binary ? "iB" : "B"));
}

constexpr Builtin kFilters[] = {
    {"abs", abs_filter},
    {"filesizeformat", filesizeformat, "binary"},
    {"float", float_filter, "default"},
    {"int", int_filter, "default base"},
    {"round", round_filter, "precision method"},
};
static_assert(is_sorted_table(kFilters));

}  // namespace

std::span<const Builtin> number_filters() {
  return kFilters;
}

}  // namespace bp::text::jinja
