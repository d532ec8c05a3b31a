#pragma once
// Reads one call, or a list of them, in one of the shapes of dialect.hpp.

#include <memory>
#include <string>
#include <string_view>

#include "core/text/chat_output/dialect.hpp"
#include "core/text/chat_output/output_event.hpp"
#include "core/text/chat_output/tool.hpp"

namespace bp::text::chat {

struct CallContext {
  const CallSyntax& syntax;
  std::string_view end;  // the first text behind calls of the dialect, or empty
  const Tools& tools;
};

// What is read may be anything. A reader begins a call as soon as it is sure of the function's
// name; until then it may turn out that there is none.
class CallReader {
 public:
  enum class State : uint8_t {
    kMore,    // needs more text
    kDone,    // all calls are complete
    kBroken,  // the text at the returned place is no part of a call
  };

  virtual ~CallReader() = default;

  // Goes on in `text`, of which the first n_read bytes were read: raises n_read. Bytes behind it
  // come again, with more text. Each call ends with the writer's end_call, but one cut off by
  // kMore or kBroken.
  virtual State read(std::string_view text, size_t& n_read, EventWriter& out) = 0;
  // The call that has begun ends here, incomplete.
  virtual void close(EventWriter&) {}

 protected:
  // Whether a function of that name may be called.
  static bool may_call(const CallContext& context, std::string_view name);
};

std::unique_ptr<CallReader> make_object_reader(const CallContext& context);
std::unique_ptr<CallReader> make_named_reader(const CallContext& context);
std::unique_ptr<CallReader> make_tagged_reader(const CallContext& context);
std::unique_ptr<CallReader> make_python_reader(const CallContext& context);
std::unique_ptr<CallReader> make_escaped_reader(const CallContext& context);

inline constexpr size_t kMaxNameBytes = 64;
// Of a call that goes out when it is complete.
inline constexpr size_t kMaxCallBytes = 1 << 20;
// Letters, digits, '_', '-' and '.'.
[[nodiscard]] constexpr bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

}  // namespace bp::text::chat
