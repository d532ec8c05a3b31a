#include "core/server/header_checks.hpp"

#include <algorithm>
#include <cctype>

namespace bp::server {

namespace {

constexpr int kBadRequest = 400, kNotImplemented = 501;

std::string_view without_blanks(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

// CR and LF only in pairs, no NUL.
bool has_clean_line_ends(std::string_view header) {
  for (size_t i = 0; i < header.size(); ++i) {
    if (header[i] == '\0') return false;
    if (header[i] == '\n' && (i == 0 || header[i - 1] != '\r')) return false;
    if (header[i] == '\r' && (i + 1 == header.size() || header[i + 1] != '\n')) return false;
  }
  return true;
}

struct Seen {
  int hosts = 0, lengths = 0, encodings = 0;
  bool chunked = true;
};

HeaderFault check_field(std::string_view line, Seen& seen) {
  if (line.front() == ' ' || line.front() == '\t') {
    return {kBadRequest, "folded header lines are refused"};
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) {
    return {kBadRequest, "a header line has no name"};
  }
  const std::string_view name = line.substr(0, colon);
  if (name.back() == ' ' || name.back() == '\t') {
    return {kBadRequest, "white space stands before a header's colon"};
  }
  const std::string_view value = without_blanks(line.substr(colon + 1));
  if (same_ignoring_case(name, "host")) ++seen.hosts;
  // A list of them is taken by some for the first, by others for the last.
  if (same_ignoring_case(name, "content-length")) {
    seen.lengths += 1 + static_cast<int>(std::ranges::count(value, ','));
  }
  if (same_ignoring_case(name, "transfer-encoding")) {
    ++seen.encodings;
    seen.chunked = seen.chunked && same_ignoring_case(value, "chunked");
  }
  return {};
}

HeaderFault judge(const Seen& seen, bool is_1_0) {
  if (seen.encodings > 1 || !seen.chunked) {
    return {kNotImplemented, "the only Transfer-Encoding understood is 'chunked'"};
  }
  if (seen.encodings != 0 && is_1_0) {
    return {kBadRequest, "HTTP/1.0 has no Transfer-Encoding"};
  }
  if (seen.encodings != 0 && seen.lengths != 0) {
    return {kBadRequest, "both Content-Length and Transfer-Encoding are given"};
  }
  if (seen.lengths > 1) return {kBadRequest, "Content-Length is given more than once"};
  if (seen.hosts > 1 || (!is_1_0 && seen.hosts == 0)) {
    return {kBadRequest, "exactly one Host header is needed"};
  }
  return {};
}

}  // namespace

bool same_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  });
}

HeaderFault check_header(std::string_view header) {
  if (!has_clean_line_ends(header)) {
    return {kBadRequest, "header lines must end in CR LF and hold no NUL"};
  }
  size_t at = header.find("\r\n");
  if (at == std::string_view::npos) return {kBadRequest, "there is no request line"};
  const bool is_1_0 = header.substr(0, at).ends_with("HTTP/1.0");
  Seen seen;
  for (at += 2; at < header.size();) {
    const size_t end = header.find("\r\n", at);
    if (end == std::string_view::npos || end == at) break;
    if (HeaderFault fault = check_field(header.substr(at, end - at), seen); fault.status != 0) {
      return fault;
    }
    at = end + 2;
  }
  return judge(seen, is_1_0);
}

}  // namespace bp::server
