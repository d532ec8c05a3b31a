#include "core/server/json_text.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <iterator>

#include "core/text/utf8.hpp"

namespace bp::server {

namespace {

constexpr float kNoProbability = -9999.0F;

bool stands_for_itself(char c) {
  const auto byte = static_cast<uint8_t>(c);
  return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\';
}

void append_control(char c, std::string& out) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<uint8_t>(c));
  }
}

}  // namespace

void append_escaped(std::string_view text, std::string& out) {
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p < end) {
    const char* run = p;
    while (run < end && stands_for_itself(*run)) ++run;
    out.append(p, run);
    p = run;
    if (p == end) return;
    if (static_cast<uint8_t>(*p) < 0x80) {
      append_control(*p++, out);
      continue;
    }
    const text::Utf8Char c = text::decode_utf8(p, end);
    out += c.form == text::Utf8Form::kValid ? std::string_view(p, c.size) : text::kReplacementUtf8;
    p += c.size;
  }
}

void append_string(std::string_view text, std::string& out) {
  out += '"';
  append_escaped(text, out);
  out += '"';
}

std::string json_string(std::string_view text) {
  std::string out;
  append_string(text, out);
  return out;
}

void append_number(uint64_t number, std::string& out) {
  char digits[24];
  const auto result = std::to_chars(std::begin(digits), std::end(digits), number);
  out.append(digits, result.ptr);
}

void append_logprob(float logprob, std::string& out) {
  char digits[48];
  const float value = std::isfinite(logprob) ? logprob : kNoProbability;
  const auto result = std::to_chars(std::begin(digits), std::end(digits), value);
  out.append(digits, result.ptr);
}

void append_ids(std::span<const int32_t> ids, std::string& out) {
  out += '[';
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ',';
    fmt::format_to(std::back_inserter(out), "{}", ids[i]);
  }
  out += ']';
}

}  // namespace bp::server
