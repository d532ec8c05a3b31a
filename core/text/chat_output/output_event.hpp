#pragma once
// What a generated answer says, piece by piece.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bp::text::chat {

struct OutputEvent {
  enum class Kind : uint8_t { kContent, kReasoning, kCallBegin, kCallArguments, kCallEnd };
  Kind kind;
  uint32_t call;     // number of the tool call, from 0
  std::string text;  // a piece of the text; where a call begins, the function's name

  bool operator==(const OutputEvent&) const = default;
};
using OutputEvents = std::vector<OutputEvent>;

// Collects events; neighbouring pieces of one text are one event. Behind the last call that it
// takes, nothing is collected.
class EventWriter {
 public:
  explicit EventWriter(uint32_t max_calls) : max_calls_(max_calls) {}

  void content(std::string_view text) { add(OutputEvent::Kind::kContent, text); }
  void reasoning(std::string_view text) { add(OutputEvent::Kind::kReasoning, text); }
  void begin_call(std::string_view name) {
    if (is_over()) return;
    events_.push_back({OutputEvent::Kind::kCallBegin, n_calls_++, std::string(name)});
    in_call_ = true;
  }
  void arguments(std::string_view text) { add(OutputEvent::Kind::kCallArguments, text); }
  // Nothing where no call is open.
  void end_call() {
    if (in_call_) events_.push_back({OutputEvent::Kind::kCallEnd, n_calls_ - 1, {}});
    in_call_ = false;
  }

  [[nodiscard]] bool is_over() const { return n_calls_ == max_calls_ && !in_call_; }
  [[nodiscard]] bool in_call() const { return in_call_; }
  [[nodiscard]] uint32_t n_calls() const { return n_calls_; }
  [[nodiscard]] OutputEvents take() { return std::exchange(events_, {}); }

 private:
  void add(OutputEvent::Kind kind, std::string_view text) {
    if (text.empty() || is_over()) return;
    const uint32_t call = kind == OutputEvent::Kind::kCallArguments ? n_calls_ - 1 : 0;
    if (!events_.empty() && events_.back().kind == kind) {
      events_.back().text += text;
    } else {
      events_.push_back({kind, call, std::string(text)});
    }
  }

  OutputEvents events_;
  uint32_t max_calls_;
  uint32_t n_calls_ = 0;
  bool in_call_ = false;
};

}  // namespace bp::text::chat
