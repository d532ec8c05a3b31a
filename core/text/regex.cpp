#include "core/text/regex.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace bp::text {
namespace {

constexpr uint32_t kMaxSteps = 10'000'000;  // of one search
constexpr uint32_t kMaxHeapKib = 64 * 1024;

struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

// One of each thread: a search writes where it matched.
pcre2_match_data* match_data() {
  thread_local const std::unique_ptr<pcre2_match_data, FreeMatchData> data(
      pcre2_match_data_create(1, nullptr));
  return data.get();
}

// Whether a class of characters holds another or is cut with one: Oniguruma, for which tokenizer
// files are written, does so, and PCRE2 reads the same text as characters.
bool has_nested_classes(std::string_view pattern) {
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const std::string_view rest = pattern.substr(i);
    if (rest[0] == '\\') {
      ++i;
    } else if (!in_class) {
      in_class = rest[0] == '[';
    } else if (rest.starts_with("[:")) {
      i = std::min(pattern.find(":]", i), pattern.size() - 2) + 1;
    } else if (rest[0] == '[' || rest.starts_with("&&")) {
      return true;
    } else if (rest[0] == ']') {
      in_class = false;
    }
  }
  return false;
}

// What a word is made of: letters, marks, decimal digits, connecting punctuation, and symbols that
// count as letters; outside of classes the other numbers of Latin-1, too. PCRE2's \w lacks the
// marks and has all numbers.
constexpr std::string_view kWordMembers =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9})"
    R"(\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";
constexpr std::string_view kLatinNumbers = R"(\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";

bool compiles(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* const code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()),
                                         pattern.size(), PCRE2_UTF, &error, &offset, nullptr);
  pcre2_code_free(code);
  return code != nullptr;
}

// A property's braces and what stands in them. A script's name means its own characters, not those
// that it shares with others.
std::string property_of(std::string_view braces) {
  if (braces.size() < 2) return std::string(braces);
  const bool is_negated = braces.starts_with("{^");
  const size_t name_at = is_negated ? 2 : 1;
  const std::string of_script = "{sc:" + std::string(braces.substr(name_at));
  if (!compiles("\\p" + of_script)) return std::string(braces);
  return is_negated ? "{^" + of_script.substr(1) : of_script;
}

// One escape of a pattern, for PCRE2; empty where there is none that means the same.
std::string escape_of(std::string_view escape, bool in_class) {
  const std::string members = std::string(kWordMembers) + std::string(kLatinNumbers);
  const std::string behind = "(?<=[" + members + "])", not_behind = "(?<![" + members + "])";
  const std::string before = "(?=[" + members + "])", not_before = "(?![" + members + "])";
  switch (escape[1]) {
    case 'w':
      return in_class ? std::string(kWordMembers) : "[" + members + "]";
    case 'W':
      return in_class ? "" : "[^" + members + "]";
    case 'b':
      if (in_class) return std::string(escape);
      return "(?:" + behind + not_before + "|" + not_behind + before + ")";
    case 'B':
      if (in_class) return "";
      return "(?:" + behind + before + "|" + not_behind + not_before + ")";
    case 'p':
    case 'P':
      return std::string(escape.substr(0, 2)) + property_of(escape.substr(2));
    case 'h':  // a hexadecimal digit, to PCRE2 a space
    case 'H':
      return "";
    default:
      return std::string(escape);
  }
}

size_t escape_size(std::string_view rest) {
  const bool is_property = rest.size() > 2 && (rest[1] == 'p' || rest[1] == 'P') && rest[2] == '{';
  if (!is_property) return 2;
  return std::min(rest.find('}'), rest.size() - 1) + 1;
}

// The pattern with every escape as PCRE2 has to be told it.
Result<std::string> translate_escapes(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size();) {
    const std::string_view rest = pattern.substr(i);
    if (rest[0] != '\\' || rest.size() < 2) {
      in_class = rest[0] == '[' || (in_class && rest[0] != ']');
      out += rest[0];
      ++i;
      continue;
    }
    const std::string_view escape = rest.substr(0, escape_size(rest));
    const std::string told = escape_of(escape, in_class);
    if (told.empty()) {
      return unsupported(fmt::format("regular expression '{}': {}{}", pattern, escape,
                                     in_class ? " in a class of characters" : ""));
    }
    out += told;
    i += escape.size();
  }
  return out;
}

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  pcre2_match_context* limits = nullptr;
  ~Code() {
    pcre2_match_context_free(limits);
    pcre2_code_free(code);
  }
};

Result<Regex> Regex::compile_oniguruma(const std::string& pattern) {
  if (has_nested_classes(pattern)) {
    return unsupported(
        fmt::format("regular expression '{}': a class of characters within another", pattern));
  }
  BP_ASSIGN(const std::string translated, translate_escapes(pattern));
  BP_ASSIGN(Regex regex, compile(translated));
  uint32_t matches_empty = 0;
  pcre2_pattern_info(regex.code_->code, PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty == 0) return regex;
  return unsupported(fmt::format("regular expression '{}': it can match nothing", pattern));
}

Result<Regex> Regex::compile(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto compiled = std::make_shared<Code>();
  compiled->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_MATCH_INVALID_UTF,
                                 &error, &offset, nullptr);
  if (compiled->code == nullptr) {
    std::array<PCRE2_UCHAR, 128> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    return unsupported(fmt::format("regular expression '{}' at {}: {}", pattern, offset,
                                   reinterpret_cast<const char*>(text.data())));
  }
  compiled->limits = pcre2_match_context_create(nullptr);
  if (compiled->limits == nullptr) return out_of_memory("no memory for a regular expression");
  pcre2_set_match_limit(compiled->limits, kMaxSteps);
  pcre2_set_heap_limit(compiled->limits, kMaxHeapKib);
  // Where the processor has no compiler, the interpreter does the same.
  static_cast<void>(pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE));
  return Regex(std::move(compiled));
}

Regex::Match Regex::find(std::string_view text, size_t from) const {
  pcre2_match_data* data = match_data();
  const Match none{text.size(), text.size()};
  if (data == nullptr) return none;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const auto match = [&](uint32_t options) {
    return pcre2_match(code_->code, subject, text.size(), from, PCRE2_NOTEMPTY | options, data,
                       code_->limits);
  };
  int n = match(0);
  // The interpreter nests on the heap.
  if (n == PCRE2_ERROR_JIT_STACKLIMIT) n = match(PCRE2_NO_JIT);
  if (n < 0) return none;
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data);
  // \K can put the beginning before `from` or behind the end.
  if (ends[0] < from || ends[1] <= ends[0]) return none;
  return {ends[0], ends[1]};
}

}  // namespace bp::text
