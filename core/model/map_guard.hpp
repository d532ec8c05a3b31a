#pragma once
// Turns the SIGBUS of a model file that shrank under its mapping into one line and exit code 1.
//
// Signal handlers belong to the process, so this is the one process-wide table of the core. A
// thread that touches mappings must not block SIGBUS: the kernel would end the process silently.

#include <cstddef>
#include <string>

namespace bp::model {

// Registers a mapping while it lives; beyond 256 mappings, or paths of 1000 bytes, a fault stays
// what it is without a guard. [any-thread]
class GuardedRange {
 public:
  GuardedRange(const void* data, size_t n_bytes, const std::string& path);
  ~GuardedRange();
  GuardedRange(const GuardedRange&) = delete;
  GuardedRange& operator=(const GuardedRange&) = delete;

 private:
  int slot_ = -1;
};

// Installs the handler, once, at the start of a program. Faults outside of guarded ranges go to
// the handler that was there before.
void install_map_guard();

}  // namespace bp::model
