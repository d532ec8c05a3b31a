#pragma once
// Status and Result: how fallible C++ code in the SDK and the core reports errors. No exceptions
// cross a module's border; a message says what, where and what to do.

#include <cassert>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "backplane/plugin.h"

namespace bp {

enum class Code : int32_t {
  kOk = BP_OK,
  kInvalidArgument = BP_INVALID_ARGUMENT,
  kUnsupported = BP_UNSUPPORTED,
  kOutOfMemory = BP_OUT_OF_MEMORY,
  kIoError = BP_IO_ERROR,
  kDeviceLost = BP_DEVICE_LOST,
  kCancelled = BP_CANCELLED,
  kInternal = BP_INTERNAL,
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  [[nodiscard]] bool ok() const { return code_ == Code::kOk; }
  [[nodiscard]] Code code() const { return code_; }
  [[nodiscard]] const std::string& message() const { return message_; }

  // The same error with `prefix` and ": " before its message.
  [[nodiscard]] Status with_context(const std::string& prefix) const {
    return ok() ? *this : Status(code_, prefix + ": " + message_);
  }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

inline Status invalid_argument(std::string m) {
  return {Code::kInvalidArgument, std::move(m)};
}
inline Status unsupported(std::string m) {
  return {Code::kUnsupported, std::move(m)};
}
inline Status out_of_memory(std::string m) {
  return {Code::kOutOfMemory, std::move(m)};
}
inline Status io_error(std::string m) {
  return {Code::kIoError, std::move(m)};
}
inline Status cancelled(std::string m) {
  return {Code::kCancelled, std::move(m)};
}
inline Status internal_error(std::string m) {
  return {Code::kInternal, std::move(m)};
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}                                  // NOLINT: implicit
  Result(Status status) : status_(std::move(status)) { assert(!status_.ok()); }  // NOLINT: implicit

  [[nodiscard]] bool ok() const { return value_.has_value(); }
  [[nodiscard]] const Status& status() const { return status_; }
  T& value() & {
    assert(ok());
    return *value_;
  }
  const T& value() const& {
    assert(ok());
    return *value_;
  }
  T&& value() && {
    assert(ok());
    return *std::move(value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace bp

// BP_TRY(status_expression): returns the error from the enclosing function.
#define BP_TRY(expression)                                                           \
  do {                                                                               \
    if (::bp::Status bp_status_ = (expression); !bp_status_.ok()) return bp_status_; \
  } while (0)

// BP_ASSIGN(auto x, result_expression): returns the error, or declares x as the value.
#define BP_ASSIGN(declaration, expression) \
  BP_ASSIGN_IMPL_(BP_CONCAT_(bp_result_, __LINE__), declaration, expression)
#define BP_ASSIGN_IMPL_(temporary, declaration, expression) \
  auto temporary = (expression);                            \
  if (!temporary.ok()) return temporary.status();           \
  declaration = std::move(temporary).value()
#define BP_CONCAT_(a, b) BP_CONCAT_IMPL_(a, b)
#define BP_CONCAT_IMPL_(a, b) a##b
