#pragma once
// Turns the SIGBUS of a model file that shrank under its mapping into one line and exit code 1, and
// that of weights which a backend has prepared in a file.
//
// Signal handlers belong to the process, so this is the one process-wide table of the core. A
// thread that touches mappings must not block SIGBUS: the kernel would end the process silently.

#include <cstddef>
#include <string>
#include <string_view>

namespace bp::model {

// Of the names of the folders that backends get for prepared weights.
inline constexpr std::string_view kPreparedFolderEnd = ".cache";

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

// Installs the handler, once, at the start of a program. Faults outside of guarded ranges and of
// prepared weights go to the handler that was there before, in other files after a line with their
// name.
void install_map_guard();

}  // namespace bp::model
