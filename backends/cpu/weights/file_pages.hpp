#pragma once
// Pages of mapped files. Ranges are widened to whole pages.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bp::cpu {

// Asks for the bytes without waiting for them.
void read_ahead(const uint8_t* data, size_t n_bytes);

// Brings the bytes into this process, reading them where they are not in the system's cache.
void fault_in(const uint8_t* data, size_t n_bytes);

// Takes the bytes out of this process and, where it lets us, out of the system's cache; reading
// them again brings them back.
void drop_pages(const uint8_t* data, size_t n_bytes);

// The shared read-only mappings of files that this process has when it is made: what may be taken
// out of the process without losing anything.
class FileMappings {
 public:
  FileMappings();
  // Takes the bytes out of this process where they lie in one of the mappings.
  void release(const uint8_t* data, size_t n_bytes) const;

 private:
  struct Mapping {
    uintptr_t begin, end;
  };
  std::vector<Mapping> mappings_;
};

}  // namespace bp::cpu
