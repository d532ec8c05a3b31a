#pragma once
// What every C++ plugin needs: the exception barrier, views of host and parameters, and BP_PLUGIN,
// which defines the one exported symbol.

#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include "backplane/host.h"
#include "backplane/plugin.h"
#include "backplane/status.hpp"

namespace bp {

[[nodiscard]] inline std::string_view view(bp_str s) {
  return {s.data, s.size};
}
[[nodiscard]] inline bp_str to_bp_str(std::string_view s) {
  return {s.data(), s.size()};
}

// Fills *error (may be null) from a status and returns its code.
inline bp_status to_c(const Status& status, bp_error* error) {
  if (!status.ok() && error != nullptr) {
    error->status = static_cast<int32_t>(status.code());
    std::snprintf(error->message, sizeof error->message, "%s", status.message().c_str());
  }
  return static_cast<bp_status>(status.code());
}

// The Status of a C call that returned `status` and filled `error`.
[[nodiscard]] inline Status from_c(bp_status status, const bp_error& error) {
  if (status == BP_OK) return {};
  const auto length = strnlen(error.message, sizeof error.message);
  const bool known = status > BP_OK && status <= BP_INTERNAL;
  return {known ? static_cast<Code>(status) : Code::kInternal, std::string(error.message, length)};
}

namespace detail {

// Allocates nothing: it runs where memory has just run out.
inline bp_status report_exception(bp_error* error, bp_status status, const char* prefix,
                                  const char* what) noexcept {
  if (error != nullptr) {
    error->status = status;
    std::snprintf(error->message, sizeof error->message, "%s%s", prefix, what);
  }
  return status;
}

}  // namespace detail

// Runs f() -> Status and lets no exception out.
template <class F>
bp_status guarded(bp_error* error, F&& f) noexcept {
  try {
    return to_c(f(), error);
  } catch (const std::bad_alloc&) {
    return detail::report_exception(error, BP_OUT_OF_MEMORY, "", "out of host memory");
  } catch (const std::system_error& e) {
    // std::thread says so where there is no memory for another thread.
    const bool scarce = e.code() == std::errc::resource_unavailable_try_again ||
                        e.code() == std::errc::not_enough_memory;
    return detail::report_exception(error, scarce ? BP_OUT_OF_MEMORY : BP_INTERNAL,
                                    "exception: ", e.what());
  } catch (const std::exception& e) {
    return detail::report_exception(error, BP_INTERNAL, "exception: ", e.what());
  } catch (...) {
    return detail::report_exception(error, BP_INTERNAL, "exception of an unknown type", "");
  }
}

// Copies a growable struct of another build into this build's version of it, zeros for what it
// lacks.
template <class T>
[[nodiscard]] T copy_growable(const T* other) {
  T mine{};
  if (other == nullptr) return mine;
  uint32_t size = 0;
  std::memcpy(&size, other, sizeof size);
  std::memcpy(&mine, other, size < sizeof(T) ? size : sizeof(T));
  mine.struct_size = size < sizeof(T) ? size : static_cast<uint32_t>(sizeof(T));
  return mine;
}

// The reverse: fills another build's version, as far as it goes, and leaves it its size.
template <class T>
void fill_growable(T* other, T mine) {
  const uint32_t size = other->struct_size;
  mine.struct_size = size;
  std::memcpy(other, &mine, size < sizeof(T) ? size : sizeof(T));
}

// A growable struct of this build, zeroed and with its size set.
template <class T>
[[nodiscard]] T make_growable() {
  T value{};
  value.struct_size = sizeof(T);
  return value;
}

// The parameters given to create; the host has validated them and filled in defaults.
class Params {
 public:
  explicit Params(const bp_params* params) : params_(params) {}

  [[nodiscard]] const bp_param* find(std::string_view key) const {
    const uint32_t n = params_ == nullptr ? 0 : params_->n_params;
    for (uint32_t i = 0; i < n; ++i) {
      if (view(params_->params[i].key) == key) return &params_->params[i];
    }
    return nullptr;
  }
  [[nodiscard]] int64_t get_int(std::string_view key, int64_t fallback) const {
    const bp_param* p = find(key);
    return p == nullptr ? fallback : p->i;
  }
  [[nodiscard]] double get_float(std::string_view key, double fallback) const {
    const bp_param* p = find(key);
    if (p == nullptr) return fallback;
    return p->type == BP_TYPE_FLOAT ? p->d : static_cast<double>(p->i);
  }
  [[nodiscard]] bool get_bool(std::string_view key, bool fallback) const {
    const bp_param* p = find(key);
    return p == nullptr ? fallback : p->i != 0;
  }
  [[nodiscard]] std::string_view get_string(std::string_view key, std::string_view fallback) const {
    const bp_param* p = find(key);
    return p == nullptr ? fallback : view(p->s);
  }

 private:
  const bp_params* params_;
};

// What the host offers; tolerates a bare host and a null one.
class Host {
 public:
  Host() = default;
  explicit Host(const bp_host* host) : host_(copy_growable(host)) {}

  void log(uint32_t level, std::string_view message) const {
    if (host_.log != nullptr) host_.log(host_.user, level, to_bp_str(message));
  }
  template <class T>
  [[nodiscard]] const T* extension(const char* id) const {
    if (host_.get_extension == nullptr) return nullptr;
    return static_cast<const T*>(host_.get_extension(host_.user, id));
  }

 private:
  bp_host host_{};
};

struct FactoryEntry {
  const char* kind;     // "bp.backend/1"
  const void* factory;  // its struct of functions, static storage
};

}  // namespace bp

// BP_PLUGIN("cpu", "0.1.0", {BP_BACKEND_ID, &factory}, ...): once per library, at namespace scope.
// Factories must be constants (constinit), so that the query needs no initialiser.
#define BP_PLUGIN(plugin_id, plugin_version, ...)                                      \
  namespace {                                                                          \
  constexpr ::bp::FactoryEntry bp_factories_[] = {__VA_ARGS__};                        \
  constexpr uint32_t bp_n_factories_ = sizeof bp_factories_ / sizeof bp_factories_[0]; \
  struct BpKinds {                                                                     \
    const char* ids[bp_n_factories_];                                                  \
    constexpr BpKinds() : ids() {                                                      \
      for (uint32_t i = 0; i < bp_n_factories_; ++i) ids[i] = bp_factories_[i].kind;   \
    }                                                                                  \
  };                                                                                   \
  constexpr BpKinds bp_kinds_;                                                         \
  const void* bp_get_factory_(const char* id) {                                        \
    for (const auto& entry : bp_factories_) {                                          \
      if (id != nullptr && std::strcmp(entry.kind, id) == 0) return entry.factory;     \
    }                                                                                  \
    return nullptr;                                                                    \
  }                                                                                    \
  constexpr bp_plugin bp_plugin_ = {sizeof(bp_plugin), BP_ABI_MAJOR,   BP_ABI_MINOR,   \
                                    bp_n_factories_,   plugin_id,      plugin_version, \
                                    bp_kinds_.ids,     bp_get_factory_};               \
  }                                                                                    \
  extern "C" BP_EXPORT const bp_plugin* bp_plugin_query(uint32_t host_abi_major) {     \
    return host_abi_major == BP_ABI_MAJOR ? &bp_plugin_ : nullptr;                     \
  }                                                                                    \
  static_assert(true, "")
