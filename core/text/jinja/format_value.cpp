// Python's format(value, spec).

#include <cmath>
#include <cstdio>
#include <string>

#include "core/text/jinja/formatting.hpp"
#include "core/text/jinja/runtime.hpp"
#include "core/text/jinja/text_ops.hpp"

namespace bp::text::jinja {
namespace {

constexpr int kMaxPrecision = 512;

std::string group_digits(const std::string& digits, char separator, size_t every) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % every == 0) out += separator;
    out += digits[i];
  }
  return out;
}

std::string format_double(double value, const FormatSpec& spec) {
  const bool percent = spec.type == '%';
  const char type = percent || spec.type == 'F' ? 'f' : spec.type;
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  if (precision > kMaxPrecision) fail("precision too large");
  const std::string pattern = std::string(spec.alternate ? "%#" : "%") + ".*" + type;
  std::string buffer(static_cast<size_t>(precision) + 350, '\0');
  const int n = std::snprintf(buffer.data(), buffer.size(), pattern.c_str(), precision,
                              std::fabs(percent ? value * 100 : value));
  buffer.resize(static_cast<size_t>(n));
  if (percent) buffer += '%';
  return buffer;
}

struct Number {
  bool negative;
  std::string prefix;  // 0x
  std::string digits;
};

Number integer_digits(Integer n, const FormatSpec& spec) {
  const unsigned base = spec.type == 'x' || spec.type == 'X' ? 16
                        : spec.type == 'o'                   ? 8
                        : spec.type == 'b'                   ? 2
                                                             : 10;
  std::string digits = format_integer(n, base);
  const bool negative = digits[0] == '-';
  if (negative) digits.erase(0, 1);
  if (spec.type == 'X') digits = to_upper(digits);
  std::string prefix;
  if (spec.alternate && base != 10) prefix = std::string("0") + spec.type;
  return {negative, std::move(prefix), std::move(digits)};
}

Number float_digits(double value, const FormatSpec& spec) {
  std::string digits;
  if (spec.type == 0 && spec.precision < 0) {
    digits = format_float(std::fabs(value));
  } else {
    FormatSpec effective = spec;
    if (spec.type == 0) effective.type = 'g';
    digits = format_double(value, effective);
  }
  return {std::signbit(value) && !std::isnan(value), "", std::move(digits)};
}

void apply_grouping(Number& number, const FormatSpec& spec) {
  if (spec.grouping == 0) return;
  const bool by_four = spec.type == 'x' || spec.type == 'X' || spec.type == 'o' || spec.type == 'b';
  const size_t end = number.digits.find_first_not_of("0123456789abcdefABCDEF");
  const size_t n = std::min(end, number.digits.size());
  number.digits = group_digits(number.digits.substr(0, n), spec.grouping, by_four ? 4 : 3) +
                  number.digits.substr(n);
}

std::string pad(Runtime& runtime, std::string prefix, std::string body, const FormatSpec& spec,
                char default_align) {
  const size_t size = count_code_points(prefix) + count_code_points(body);
  if (spec.width <= size) return prefix + body;
  const size_t missing = spec.width - size;
  runtime.check_text_size(spec.width * 4);
  std::u32string left, right, middle;
  switch (spec.align ? spec.align : default_align) {
    case '<':
      right.assign(missing, spec.fill);
      break;
    case '^':
      left.assign(missing / 2, spec.fill);
      right.assign(missing - missing / 2, spec.fill);
      break;
    case '=':
      middle.assign(missing, spec.fill);
      break;
    default:
      left.assign(missing, spec.fill);
  }
  return encode(left) + prefix + encode(middle) + body + encode(right);
}

}  // namespace

std::string format_value(Runtime& runtime, const Value& value, const FormatSpec& spec) {
  constexpr std::string_view kFloatTypes = "eEfFgG%";
  Integer storage = 0;
  const Integer* n = integer_or_bool(value, storage);
  const bool as_float =
      is_number(value) &&
      (value.get<double>() || (spec.type && kFloatTypes.find(spec.type) != std::string_view::npos));
  if (!as_float && !n) {
    if (spec.type != 0 && spec.type != 's') {
      fail(std::string("Unknown format code '") + spec.type + "' for object of type '" +
           type_name(value) + "'");
    }
    std::string text = to_str(runtime, value);
    if (spec.precision >= 0) {
      text.resize(byte_offset(text, static_cast<size_t>(spec.precision)));
    }
    return pad(runtime, "", std::move(text), spec, '<');
  }
  if (spec.type == 's') {
    fail(std::string("Unknown format code 's' for object of type '") + type_name(value) + "'");
  }
  if (spec.type == 'c') {
    if (!n || *n < 0 || *n > 0x10FFFF || (*n >= 0xD800 && *n < 0xE000)) {
      fail("%c arg not in range(0x110000)");
    }
    return pad(runtime, "", encode(std::u32string(1, static_cast<char32_t>(*n))), spec, '<');
  }
  if (as_float
          ? spec.type && kFloatTypes.find(spec.type) == std::string_view::npos
          : spec.type && std::string_view("bdoxXn").find(spec.type) == std::string_view::npos) {
    fail(std::string("Unknown format code '") + spec.type + "' for object of type '" +
         type_name(value) + "'");
  }
  Number number = as_float ? float_digits(to_double(value), spec) : integer_digits(*n, spec);
  apply_grouping(number, spec);
  std::string sign = number.negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  return pad(runtime, sign + number.prefix, std::move(number.digits), spec, '>');
}

}  // namespace bp::text::jinja
