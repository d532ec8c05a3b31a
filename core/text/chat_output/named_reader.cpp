// NAME and then {..}, with the dialect's words around the name.

#include <cstdint>
#include <optional>
#include <utility>

#include "core/text/chat_output/call_reader.hpp"
#include "core/text/chat_output/json_scanner.hpp"
#include "core/text/chat_output/marks.hpp"

namespace bp::text::chat {

namespace {

constexpr size_t kMaxIdBytes = 64;

enum class Match : uint8_t { kNo, kBeginning, kWhole };

bool is_id_char(char c) {
  return is_name_char(c) && c != '.';
}

// Whether `text` is a beginning of what the pattern stands for, or all of it.
Match match(std::string_view pattern, std::string_view text, std::string_view& name) {
  if (pattern.empty()) return text.empty() ? Match::kWhole : Match::kNo;
  const char p = pattern.front();
  const bool is_run = p == ' ' || p == kNamePlace || p == kIdPlace;
  if (!is_run) {
    if (text.empty()) return Match::kBeginning;
    return text.front() == p ? match(pattern.substr(1), text.substr(1), name) : Match::kNo;
  }
  size_t n = 0;
  const size_t n_max = p == kNamePlace ? kMaxNameBytes : p == kIdPlace ? kMaxIdBytes : SIZE_MAX;
  const auto belongs = [p](char c) {
    return p == ' ' ? is_json_space(c) : p == kNamePlace ? is_name_char(c) : is_id_char(c);
  };
  while (n < text.size() && n < n_max && belongs(text[n])) ++n;
  if (p != ' ' && n == 0) return text.empty() ? Match::kBeginning : Match::kNo;
  const Match rest = match(pattern.substr(1), text.substr(n), name);
  if (p == kNamePlace && rest == Match::kWhole) name = text.substr(0, n);
  // The run itself may go on.
  return rest == Match::kNo && n == text.size() && n < n_max ? Match::kBeginning : rest;
}

class NamedReader : public CallReader {
 public:
  explicit NamedReader(const CallContext& context) : context_(context) {}

  State read(std::string_view text, size_t& n_read, EventWriter& out) override {
    for (; !in_arguments_; ++n_read) {
      if (n_read == text.size()) return State::kMore;
      if (text[n_read] == '{') {
        if (!begin_call(out)) return State::kBroken;
        break;
      }
      header_ += text[n_read];
      if (!may_be_header()) {
        header_.pop_back();
        return State::kBroken;
      }
    }
    return arguments(text, n_read, out);
  }

 private:
  [[nodiscard]] bool may_be_header() const {
    std::string_view name;
    for (const std::string_view pattern : context_.syntax.name_patterns) {
      if (match(pattern, header_, name) != Match::kNo) return header_.size() <= kMaxHeaderBytes;
    }
    return false;
  }

  bool begin_call(EventWriter& out) {
    for (const std::string_view pattern : context_.syntax.name_patterns) {
      std::string_view name;
      if (match(pattern, header_, name) != Match::kWhole || !may_call(context_, name)) continue;
      out.begin_call(name);
      in_arguments_ = true;
      return true;
    }
    return false;
  }

  State arguments(std::string_view text, size_t& n_read, EventWriter& out) {
    const size_t begin = n_read;
    while (n_read < text.size()) {
      const auto outcome = scanner_.take(text[n_read]);
      if (outcome == JsonScanner::Outcome::kBad) {
        out.arguments(text.substr(begin, n_read - begin));
        return State::kBroken;
      }
      ++n_read;
      if (outcome != JsonScanner::Outcome::kLast) continue;
      out.arguments(text.substr(begin, n_read - begin));
      out.end_call();
      return State::kDone;
    }
    out.arguments(text.substr(begin));
    return State::kMore;
  }

  CallContext context_;
  std::string header_;
  bool in_arguments_ = false;
  JsonScanner scanner_;
};

}  // namespace

std::unique_ptr<CallReader> make_named_reader(const CallContext& context) {
  return std::make_unique<NamedReader>(context);
}

}  // namespace bp::text::chat
