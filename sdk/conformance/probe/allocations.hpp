#pragma once
// Memory as the whole process takes it. The program's own malloc, mmap and their kin stand before
// those of the C library, for plugins too; under a sanitizer its allocator stays.

#include <cstdint>
#include <vector>

namespace bp::conformance {

// Calls that took memory, so far, in all threads. 0 for ever under a sanitizer.
[[nodiscard]] uint64_t n_allocations();

// Bytes that are allocated or mapped now.
[[nodiscard]] int64_t allocated_bytes();

// Whose allocations may fail: a library's own, and those of the C and C++ libraries, which allocate
// for it. Libraries that it uses besides, such as a device's driver, answer for themselves.
class Allocators {
 public:
  // `code` lies in the library, which is loaded.
  explicit Allocators(const void* code);
  [[nodiscard]] bool has(const void* caller) const;

 private:
  struct Segment {
    uintptr_t begin, end;
  };
  std::vector<Segment> segments_;
};

// As long as it lives, the n-th allocation by these from its construction on (from 1) fails, once.
class FailingAllocation {
 public:
  // `allocators` outlives it.
  FailingAllocation(uint64_t n, const Allocators& allocators);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;

  [[nodiscard]] bool has_failed() const;
};

}  // namespace bp::conformance
