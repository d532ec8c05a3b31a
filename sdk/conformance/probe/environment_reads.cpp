#include "sdk/conformance/probe/environment_reads.hpp"

#include <unistd.h>

#include <atomic>
#include <cstring>

#include "sdk/conformance/probe/sanitizer.hpp"

namespace bp::conformance {

namespace {

std::atomic<uint64_t> g_reads{0};
std::atomic<const char*> g_last{""};  // the caller's literal: names are read within the test

}  // namespace

uint64_t n_environment_reads() {
  return g_reads.load();
}
std::string last_environment_read() {
  return g_last.load();
}

}  // namespace bp::conformance

#ifndef BACKPLANE_SANITIZED

extern "C" {

__attribute__((visibility("default"))) char* getenv(const char* name) noexcept {
  bp::conformance::g_reads.fetch_add(1);
  bp::conformance::g_last.store(name);
  const size_t size = std::strlen(name);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, name, size) == 0 && (*entry)[size] == '=') return *entry + size + 1;
  }
  return nullptr;
}

__attribute__((visibility("default"))) char* secure_getenv(const char* name) noexcept {
  return getenv(name);
}

}  // extern "C"

#endif  // BACKPLANE_SANITIZED
