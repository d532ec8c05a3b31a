// f(a=1, b="x"): one call, or a list of them in brackets. A call goes out when it is complete.

#include <cstdint>
#include <utility>

#include "core/text/chat_output/call_reader.hpp"
#include "core/text/chat_output/json_scanner.hpp"
#include "core/text/chat_output/python_call.hpp"

namespace bp::text::chat {

namespace {

class PythonReader : public CallReader {
 public:
  explicit PythonReader(const CallContext& context) : context_(context) {}

  State read(std::string_view text, size_t& n_read, EventWriter& out) override {
    for (; n_read < text.size(); ++n_read) {
      const State state = take(text[n_read], out);
      if (state == State::kBroken) return state;
      if (state == State::kDone) {
        ++n_read;
        return state;
      }
    }
    return State::kMore;
  }

 private:
  enum class Place : uint8_t { kStart, kCall, kNext };

  State take(char c, EventWriter& out) {
    if (place_ != Place::kCall && is_json_space(c)) return State::kMore;
    if (place_ == Place::kNext) {
      if (c == ']') return State::kDone;
      if (c != ',') return State::kBroken;
      place_ = Place::kStart;
      return State::kMore;
    }
    if (place_ == Place::kStart) {
      if (c == '[' && !in_list_) {
        in_list_ = true;
        return State::kMore;
      }
      place_ = Place::kCall;
    }
    call_ += c;
    if (call_.size() > kMaxCallBytes) return State::kBroken;
    return in_call(c, out);
  }

  State in_call(char c, EventWriter& out) {
    if (depth_ == 0) {
      if (is_name_char(c)) return State::kMore;
      if (c != '(' || !may_begin()) return State::kBroken;
      depth_ = 1;
      return State::kMore;
    }
    if (in_string_) {
      if (std::exchange(is_escaped_, false)) return State::kMore;
      is_escaped_ = c == '\\';
      in_string_ = c != quote_;
      return State::kMore;
    }
    if (c == '"' || c == '\'') {
      in_string_ = true;
      quote_ = c;
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth_;
    } else if (c == ')' || c == ']' || c == '}') {
      --depth_;
    }
    return depth_ == 0 ? end_call(out) : State::kMore;
  }

  [[nodiscard]] bool may_begin() const {
    const std::string_view name = python_function(call_);
    return may_call(context_, name) || name == "print";
  }

  State end_call(EventWriter& out) {
    const auto call = parse_python_call(std::exchange(call_, {}), context_.tools);
    if (!call || !may_call(context_, call->name)) return State::kBroken;
    out.begin_call(call->name);
    out.arguments(call->arguments);
    out.end_call();
    place_ = Place::kNext;
    return in_list_ ? State::kMore : State::kDone;
  }

  CallContext context_;
  Place place_ = Place::kStart;
  bool in_list_ = false;
  std::string call_;
  uint32_t depth_ = 0;  // of brackets, the call's own included
  bool in_string_ = false;
  bool is_escaped_ = false;
  char quote_ = 0;
};

}  // namespace

std::unique_ptr<CallReader> make_python_reader(const CallContext& context) {
  return std::make_unique<PythonReader>(context);
}

}  // namespace bp::text::chat
