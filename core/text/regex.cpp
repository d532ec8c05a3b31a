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

bool has_escape(std::string_view pattern, char escaped) {
  for (size_t i = 0; i + 1 < pattern.size(); ++i) {
    if (pattern[i] != '\\') continue;
    if (pattern[++i] == escaped) return true;
  }
  return false;
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

Result<Regex> Regex::compile(const std::string& pattern) {
  // To Oniguruma a hexadecimal digit, to PCRE2 a space.
  if (has_escape(pattern, 'h') || has_escape(pattern, 'H')) {
    return unsupported(fmt::format("regular expression '{}': \\h", pattern));
  }
  if (has_nested_classes(pattern)) {
    return unsupported(
        fmt::format("regular expression '{}': a class of characters within another", pattern));
  }
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
