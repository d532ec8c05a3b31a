#pragma once
// Large zeroed memory straight from the kernel, 64-byte aligned at least, given back on
// destruction.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "backplane/status.hpp"

namespace bp::cpu {

enum class Pages {
  kSmall,  // for memory that fills bit by bit
  kHuge,   // asks for huge pages: fewer faults, each of which clears two megabytes
};

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // kOutOfMemory with the size wanted and `what` when the kernel refuses.
  static Result<AlignedBuffer> allocate(size_t n_bytes, const char* what,
                                        Pages pages = Pages::kHuge);
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
