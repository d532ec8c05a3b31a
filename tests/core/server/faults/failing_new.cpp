#include "failing_new.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

constexpr int64_t kNever = INT64_MAX / 2;
std::atomic<int64_t> allocations_left{kNever};
thread_local bool is_exempt = false;

// The JSON library allocates a few bytes in its destructors, out of which nothing can be thrown.
constexpr size_t kSmallest = 256;

void* allocate(size_t n_bytes) {
  const bool counts = !is_exempt && n_bytes >= kSmallest;
  if (counts && allocations_left.fetch_sub(1) == 0) return nullptr;
  return std::malloc(n_bytes == 0 ? 1 : n_bytes);
}

}  // namespace

void* operator new(size_t n_bytes) {
  void* memory = allocate(n_bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new[](size_t n_bytes) {
  return ::operator new(n_bytes);
}
void* operator new(size_t n_bytes, const std::nothrow_t&) noexcept {
  return allocate(n_bytes);
}
void* operator new[](size_t n_bytes, const std::nothrow_t&) noexcept {
  return allocate(n_bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  std::free(memory);
}

namespace bp::testing {

void fail_allocation(int64_t n) {
  allocations_left = n;
}
bool stop_failing() {
  return allocations_left.exchange(kNever) < 0;
}
void exempt_this_thread() {
  is_exempt = true;
}

}  // namespace bp::testing
