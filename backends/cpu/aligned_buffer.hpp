#pragma once
// Large zeroed memory straight from the kernel, given back on destruction. From one huge page on it
// begins at a huge page's boundary and asks for such pages, which cost one fault and one entry of
// the address cache where small ones cost 512; pages never touched take no memory.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "backplane/status.hpp"

namespace bp::cpu {

inline constexpr size_t kSmallPage = size_t{4} << 10;
inline constexpr size_t kHugePage = size_t{2} << 20;

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // kOutOfMemory with the size wanted and `what` when the kernel refuses.
  static Result<AlignedBuffer> allocate(size_t n_bytes, const char* what);
  ~AlignedBuffer();
  AlignedBuffer(AlignedBuffer&& other) noexcept { swap(other); }
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    swap(other);
    return *this;
  }

  [[nodiscard]] uint8_t* data() const { return data_; }
  [[nodiscard]] size_t size() const { return size_; }

 private:
  void swap(AlignedBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace bp::cpu
