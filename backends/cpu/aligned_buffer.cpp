#include "backends/cpu/aligned_buffer.hpp"

#include <sys/mman.h>

#include <string>

namespace bp::cpu {

namespace {
constexpr size_t kHugePage = size_t{2} << 20;
}  // namespace

Result<AlignedBuffer> AlignedBuffer::allocate(size_t n_bytes, const char* what, Pages pages) {
  AlignedBuffer buffer;
  if (n_bytes == 0) return buffer;
  void* data = mmap(nullptr, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return out_of_memory(std::to_string(n_bytes) + " bytes for " + what + " could not be had");
  }
  buffer.data_ = static_cast<uint8_t*>(data);
  buffer.size_ = n_bytes;
  // Only a hint; a kernel without huge pages refuses it.
  if (n_bytes >= kHugePage) {
    madvise(data, n_bytes, pages == Pages::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  }
  return buffer;
}

AlignedBuffer::~AlignedBuffer() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace bp::cpu
