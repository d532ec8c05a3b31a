#pragma once
// Memory as the whole process takes it. The program's own malloc, mmap and their kin stand before
// those of the C library, for plugins too; under a sanitizer its allocator stays.

#include <cstdint>

namespace bp::conformance {

// Calls that took memory, so far, in all threads. 0 for ever under a sanitizer.
[[nodiscard]] uint64_t n_allocations();

// Bytes that are allocated or mapped now.
[[nodiscard]] int64_t allocated_bytes();

// As long as it lives, the n-th allocation from its construction on (from 1) fails, once.
class FailingAllocation {
 public:
  explicit FailingAllocation(uint64_t n);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;

  [[nodiscard]] bool has_failed() const;
};

}  // namespace bp::conformance
