#include "core/text/chat_output/json_scanner.hpp"

#include <nlohmann/json.hpp>

namespace bp::text::chat {

namespace {

using Outcome = JsonScanner::Outcome;

constexpr size_t kMaxScalarBytes = 64;

bool is_scalar_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' || c == '.' ||
         c == 'E';
}

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

}  // namespace

Outcome JsonScanner::take(char c) {
  switch (place_) {
    case Place::kString:
    case Place::kEscape:
    case Place::kHex:
      return in_string(c);
    case Place::kScalar:
      return in_scalar(c);
    default:
      return between(c);
  }
}

Outcome JsonScanner::between(char c) {
  if (is_json_space(c)) return open_.empty() ? Outcome::kBad : Outcome::kInside;
  switch (place_) {
    case Place::kFirstKey:
      if (c == '}') return end_value();
      [[fallthrough]];
    case Place::kKey:
      if (c != '"') return Outcome::kBad;
      is_key_ = true;
      place_ = Place::kString;
      return Outcome::kInside;
    case Place::kColon:
      if (c != ':') return Outcome::kBad;
      place_ = Place::kValue;
      return Outcome::kInside;
    case Place::kNext: {
      const bool in_object = open_.back() == '{';
      if (c == (in_object ? '}' : ']')) return end_value();
      if (c != ',') return Outcome::kBad;
      place_ = in_object ? Place::kKey : Place::kValue;
      return Outcome::kInside;
    }
    case Place::kFirstItem:
      if (c == ']') return end_value();
      [[fallthrough]];
    default:
      return begin_value(c);
  }
}

Outcome JsonScanner::begin_value(char c) {
  if (c == '{' || c == '[') {
    if (open_.size() == kMaxDepth) return Outcome::kBad;
    open_ += c;
    place_ = c == '{' ? Place::kFirstKey : Place::kFirstItem;
  } else if (c == '"') {
    is_key_ = false;
    place_ = Place::kString;
  } else if (is_scalar_char(c)) {
    scalar_ = c;
    place_ = Place::kScalar;
  } else {
    return Outcome::kBad;
  }
  return Outcome::kInside;
}

// Of a container, whose last byte this is.
Outcome JsonScanner::end_value() {
  open_.pop_back();
  place_ = Place::kNext;
  return open_.empty() ? Outcome::kLast : Outcome::kInside;
}

Outcome JsonScanner::in_string(char c) {
  if (place_ == Place::kHex) {
    if (!is_hex(c)) return Outcome::kBad;
    if (--n_hex_ == 0) place_ = Place::kString;
  } else if (place_ == Place::kEscape) {
    if (std::string_view("\"\\/bfnrtu").find(c) == std::string_view::npos) return Outcome::kBad;
    place_ = c == 'u' ? Place::kHex : Place::kString;
    n_hex_ = 4;
  } else if (c == '\\') {
    place_ = Place::kEscape;
  } else if (c == '"') {
    place_ = is_key_ ? Place::kColon : Place::kNext;
    if (open_.empty()) return Outcome::kLast;
  }
  return Outcome::kInside;
}

Outcome JsonScanner::in_scalar(char c) {
  if (is_scalar_char(c)) {
    scalar_ += c;
    return scalar_.size() > kMaxScalarBytes ? Outcome::kBad : Outcome::kInside;
  }
  if (!is_json(scalar_)) return Outcome::kBad;
  if (open_.empty()) return Outcome::kPast;
  place_ = Place::kNext;
  return between(c);
}

bool is_json(std::string_view text) {
  return nlohmann::json::accept(text);
}

bool decode_json_string(std::string_view json, std::string& text) {
  const auto value = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!value.is_string()) return false;
  text = value.get<std::string>();
  return true;
}

void append_json_string(std::string_view text, std::string& out) {
  constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

}  // namespace bp::text::chat
