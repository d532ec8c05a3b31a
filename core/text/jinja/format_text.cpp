// The `%` operator on text and str.format.

#include <cmath>
#include <string>

#include "core/text/jinja/builtin.hpp"
#include "core/text/jinja/formatting.hpp"
#include "core/text/jinja/operators.hpp"
#include "core/text/jinja/runtime.hpp"
#include "core/text/jinja/text_ops.hpp"

namespace bp::text::jinja {
namespace {

constexpr size_t kMaxNumber = 1'000'000'000;  // for widths and precisions

bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}

// Reads decimal digits at `i`; false where there are none.
bool read_number(std::string_view text, size_t& i, size_t& number) {
  const size_t begin = i;
  number = 0;
  for (; i < text.size() && is_ascii_digit(text[i]); ++i) {
    number = number * 10 + static_cast<size_t>(text[i] - '0');
    if (number > kMaxNumber) fail("number in a format is too large");
  }
  return i > begin;
}

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const Text& format, const Value& arguments)
      : runtime_(runtime), format_(format.str()), arguments_(arguments), out_(runtime) {
    tuple_ = arguments.object<Tuple>();
  }

  std::string run() {
    while (i_ < format_.size()) {
      const size_t percent = format_.find('%', i_);
      out_.append(format_.substr(i_, percent - i_));
      if (percent == std::string_view::npos) break;
      i_ = percent + 1;
      conversion();
    }
    // Whatever has items counts as a mapping.
    const bool has_items = arguments_.object<Dict>() || arguments_.object<List>() ||
                           arguments_.object<Range>() || arguments_.is_undefined();
    if (!has_items && next_ < (tuple_ ? tuple_->items.size() : 1)) {
      fail("not all arguments converted during string formatting");
    }
    return out_.take();
  }

 private:
  Value next_argument() {
    if (tuple_) {
      if (next_ < tuple_->items.size()) return tuple_->items[next_++];
    } else if (next_ == 0) {
      ++next_;
      return arguments_;
    }
    fail("not enough arguments for format string");
  }

  Value mapped_argument() {
    const size_t close = format_.find(')', i_);
    if (close == std::string_view::npos) fail("incomplete format key");
    const std::string_view key = format_.substr(i_ + 1, close - i_ - 1);
    i_ = close + 1;
    auto* dict = arguments_.object<Dict>();
    if (!dict) fail("format requires a mapping");
    const Value* value = runtime_.find(*dict, key);
    if (!value) fail("'" + std::string(key) + "'");
    return *value;
  }

  char flags(FormatSpec& spec) {
    for (; i_ < format_.size(); ++i_) {
      switch (format_[i_]) {
        case '-':
          spec.align = '<';
          break;
        case '+':
          spec.sign = '+';
          break;
        case ' ':
          if (spec.sign != '+') spec.sign = ' ';
          break;
        case '#':
          spec.alternate = true;
          break;
        case '0':
          if (spec.align != '<') {
            spec.fill = U'0';
            spec.align = '=';
          }
          break;
        default:
          return format_[i_];
      }
    }
    return 0;
  }

  size_t size_argument() {
    if (i_ < format_.size() && format_[i_] == '*') {
      ++i_;
      const Value value = next_argument();
      auto* n = value.get<Integer>();
      if (!n || *n < 0 || *n > static_cast<Integer>(kMaxNumber)) fail("* wants int");
      return static_cast<size_t>(*n);
    }
    size_t number = 0;
    read_number(format_, i_, number);
    return number;
  }

  void conversion() {
    std::optional<Value> value;
    if (i_ < format_.size() && format_[i_] == '(') value = mapped_argument();
    FormatSpec spec;
    flags(spec);
    spec.width = size_argument();
    if (i_ < format_.size() && format_[i_] == '.') {
      ++i_;
      spec.precision = static_cast<int>(size_argument());
    }
    while (i_ < format_.size() && std::string_view("hlL").find(format_[i_]) != std::string::npos) {
      ++i_;
    }
    if (i_ == format_.size()) fail("incomplete format");
    spec.type = format_[i_++];
    if (spec.type == '%') return out_.append("%");
    if (!value) value = next_argument();
    if (spec.align == '=' && std::string_view("sracC").find(spec.type) != std::string::npos) {
      spec.fill = U' ';
      spec.align = 0;
    }
    out_.append(convert(*value, spec));
  }

  std::string convert(const Value& value, FormatSpec spec) {
    if (spec.align == 0) spec.align = '>';
    switch (spec.type) {
      case 's':
      case 'r':
      case 'a': {
        const Value text =
            runtime_.text(spec.type == 's' ? to_str(runtime_, value) : to_repr(runtime_, value));
        spec.type = 's';
        return format_value(runtime_, text, spec);
      }
      case 'c':
        if (auto* text = value.get<Text>(); text && count_code_points(text->str()) == 1) {
          spec.type = 's';
        }
        return format_value(runtime_, value, spec);
      case 'd':
      case 'i':
      case 'u':
        spec.type = 'd';
        require_number(value, "%d format: a real number is required");
        return format_value(runtime_, truncated(value), zero_filled(spec, truncated(value)));
      case 'x':
      case 'X':
      case 'o': {
        Integer storage = 0;
        if (!integer_or_bool(value, storage)) {
          fail(std::string("%") + spec.type + " format: an integer is required, not " +
               type_name(value));
        }
        return format_value(runtime_, value, zero_filled(spec, value));
      }
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        require_number(value, "must be real number");
        return format_value(runtime_, Value::real(to_double(value)), spec);
      default:
        fail(std::string("unsupported format character '") + spec.type + "'");
    }
  }

  static void require_number(const Value& value, const char* message) {
    require_defined(value);
    if (!is_number(value)) fail(std::string(message) + ", not " + type_name(value));
  }

  static Value truncated(const Value& number) {
    auto* d = number.get<double>();
    if (!d) return number;
    if (!(std::fabs(*d) < 1e38)) fail("cannot convert float to integer");
    return Value::integer(static_cast<Integer>(*d));
  }

  // The precision of an integer is its least number of digits.
  FormatSpec zero_filled(FormatSpec spec, const Value& value) {
    if (spec.precision < 0) return spec;
    const auto digits = static_cast<size_t>(spec.precision);
    spec.precision = -1;
    if (digits > format_value(runtime_, value, FormatSpec{.type = spec.type}).size()) {
      spec.width = std::max(spec.width, digits);
      spec.fill = U'0';
      spec.align = '=';
    }
    return spec;
  }

  Runtime& runtime_;
  std::string_view format_;
  const Value& arguments_;
  const Tuple* tuple_ = nullptr;
  Output out_;
  size_t i_ = 0;
  size_t next_ = 0;
};

FormatSpec parse_spec(std::string_view text) {
  FormatSpec spec;
  size_t i = 0;
  constexpr std::string_view kAligns = "<>^=";
  const auto at = [&](size_t k) { return k < text.size() ? text[k] : '\0'; };
  const auto is_align = [&](char c) { return c && kAligns.find(c) != std::string_view::npos; };
  const size_t first = text.empty() ? 0 : utf8_length(static_cast<unsigned char>(text[0]));
  const bool has_fill = first > 0 && is_align(at(first));
  if (has_fill) {
    spec.fill = decode(text.substr(0, first))[0];
    spec.align = text[first];
    i = first + 1;
  } else if (is_align(at(0))) {
    spec.align = text[i++];
  }
  if (at(i) == '+' || at(i) == '-' || at(i) == ' ') spec.sign = text[i++];
  if (at(i) == '#') {
    spec.alternate = true;
    ++i;
  }
  if (at(i) == '0') {
    if (!spec.align) spec.align = '=';
    if (!has_fill) spec.fill = U'0';
    ++i;
  }
  read_number(text, i, spec.width);
  if (at(i) == ',' || at(i) == '_') spec.grouping = text[i++];
  if (at(i) == '.') {
    size_t precision = 0;
    if (!read_number(text, ++i, precision)) fail("Format specifier missing precision");
    spec.precision = static_cast<int>(precision);
  }
  if (i < text.size()) spec.type = text[i++];
  if (i < text.size()) fail("Invalid format specifier");
  return spec;
}

class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const Arguments& arguments)
      : runtime_(runtime), arguments_(arguments) {}

  std::string run(std::string_view format) {
    Runtime::Level level(runtime_);
    Output out(runtime_);
    for (size_t i = 0; i < format.size();) {
      const size_t brace = format.find_first_of("{}", i);
      out.append(format.substr(i, brace - i));
      if (brace == std::string_view::npos) break;
      if (brace + 1 < format.size() && format[brace + 1] == format[brace]) {
        out.append(format.substr(brace, 1));
        i = brace + 2;
        continue;
      }
      if (format[brace] == '}') fail("Single '}' encountered in format string");
      const size_t end = matching_brace(format, brace);
      out.append(field(format.substr(brace + 1, end - brace - 1)));
      i = end + 1;
    }
    return out.take();
  }

 private:
  static size_t matching_brace(std::string_view format, size_t open) {
    int depth = 0;
    for (size_t i = open; i < format.size(); ++i) {
      if (format[i] == '{') ++depth;
      if (format[i] == '}' && --depth == 0) return i;
    }
    fail("expected '}' before end of string");
  }

  std::string field(std::string_view text) {
    const size_t end_of_name = std::min(text.find_first_of("!:"), text.size());
    Value value = lookup(text.substr(0, end_of_name));
    text.remove_prefix(end_of_name);
    if (!text.empty() && text[0] == '!') {
      const char conversion = text.size() > 1 ? text[1] : '\0';
      if (conversion != 'r' && conversion != 's' && conversion != 'a') fail("bad conversion");
      value = runtime_.text(conversion == 's' ? to_str(runtime_, value) : to_repr(runtime_, value));
      text.remove_prefix(2);
    }
    if (!text.empty() && text[0] != ':') fail("expected ':' after conversion specifier");
    const std::string spec = text.empty() ? "" : run(text.substr(1));
    if (spec.empty()) return to_str(runtime_, value);
    if (!is_number(value) && !value.get<Text>()) {
      fail(std::string("unsupported format string passed to ") + type_name(value) + ".__format__");
    }
    return format_value(runtime_, value, parse_spec(spec));
  }

  Value lookup(std::string_view path) {
    const size_t end = std::min(path.find_first_of(".["), path.size());
    Value value = argument(path.substr(0, end));
    path.remove_prefix(end);
    while (!path.empty()) {
      const bool item = path[0] == '[';
      const size_t stop =
          item ? path.find(']') : std::min(path.find_first_of(".[", 1), path.size());
      if (stop == std::string_view::npos) fail("Missing ']' in format string");
      const std::string_view name = path.substr(1, stop - 1);
      size_t i = 0, number = 0;
      const bool index = item && read_number(name, i, number) && i == name.size();
      value = index  ? get_item(runtime_, value, Value::integer(static_cast<Integer>(number)))
              : item ? get_item(runtime_, value, Text(std::string(name)))
                     : get_attribute(runtime_, value, Text(std::string(name)));
      require_defined(value);
      path.remove_prefix(item ? stop + 1 : stop);
    }
    return value;
  }

  Value argument(std::string_view name) {
    size_t i = 0, index = next_;
    if (name.empty()) {
      ++next_;
    } else if (!(read_number(name, i, index) && i == name.size())) {
      runtime_.spend_look_up(name.size(), arguments_.named.size());
      for (const auto& [key, value] : arguments_.named) {
        if (key.str() == name) return value;
      }
      fail("'" + std::string(name) + "'");
    }
    if (index >= arguments_.positional.size()) {
      fail("Replacement index " + std::to_string(index) +
           " out of range for positional args tuple");
    }
    return arguments_.positional[index];
  }

  Runtime& runtime_;
  const Arguments& arguments_;
  size_t next_ = 0;
};

}  // namespace

Value format_percent(Runtime& runtime, const Text& format, const Value& arguments) {
  return runtime.text(PercentFormatter(runtime, format, arguments).run(), format.markup());
}

Value format_braces(Runtime& runtime, const Text& format, const Arguments& arguments) {
  return runtime.text(BraceFormatter(runtime, arguments).run(format.str()), format.markup());
}

}  // namespace bp::text::jinja
