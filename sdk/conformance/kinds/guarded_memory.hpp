#pragma once
// Arrays that end at a page nobody may touch: one element too many is a crash, not luck.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>

namespace bp::conformance {

template <class T>
class GuardedArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  // Zeros.
  explicit GuardedArray(size_t n) : n_(n) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    n_body_ = (n * sizeof(T) + page - 1) / page * page;
    n_mapped_ = n_body_ + page;
    void* memory =
        mmap(nullptr, n_mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<char*>(memory);
    mprotect(base_ + n_body_, page, PROT_NONE);
  }
  explicit GuardedArray(std::span<const T> values) : GuardedArray(values.size()) {
    if (n_ > 0) std::memcpy(data(), values.data(), n_ * sizeof(T));
  }
  ~GuardedArray() { munmap(base_, n_mapped_); }
  GuardedArray(const GuardedArray&) = delete;
  GuardedArray& operator=(const GuardedArray&) = delete;

  [[nodiscard]] T* data() { return reinterpret_cast<T*>(base_ + n_body_ - n_ * sizeof(T)); }
  [[nodiscard]] size_t size() const { return n_; }
  [[nodiscard]] std::span<T> all() { return {data(), n_}; }
  T& operator[](size_t i) { return data()[i]; }

  void make_read_only() { mprotect(base_, n_body_, PROT_READ); }

 private:
  size_t n_, n_body_ = 0, n_mapped_ = 0;
  char* base_ = nullptr;
};

}  // namespace bp::conformance
