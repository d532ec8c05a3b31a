#pragma once
// Values as text, the way Python prints them, and Python's two formatting languages.

#include <string>
#include <string_view>

#include "core/text/jinja/value.hpp"

namespace bp::text::jinja {

class Runtime;
class Output;
struct Arguments;

std::string format_integer(Integer n, unsigned base = 10);
std::string format_float(double value);  // repr(float)

// str(value) and repr(value).
void write_str(Output& out, Runtime& runtime, const Value& value);
std::string to_str(Runtime& runtime, const Value& value);
std::string to_repr(Runtime& runtime, const Value& value);
// The value itself where it is text, else str(value).
Text to_text(Runtime& runtime, const Value& value);

// `text % arguments`.
Value format_percent(Runtime& runtime, const Text& format, const Value& arguments);
// text.format(...).
Value format_braces(Runtime& runtime, const Text& format, const Arguments& arguments);

// [[fill]align][sign][#][0][width][,][.precision][type] of Python's format().
struct FormatSpec {
  char32_t fill = U' ';
  char align = 0;  // < > ^ =, or 0 for the type's own
  char sign = '-';
  bool alternate = false;
  char grouping = 0;  // , or _
  size_t width = 0;
  int precision = -1;
  char type = 0;
};
std::string format_value(Runtime& runtime, const Value& value, const FormatSpec& spec);

}  // namespace bp::text::jinja
