#include "backends/cpu/aligned_buffer.hpp"

#include <sys/mman.h>

#include <string>

#include "backends/cpu/round_up.hpp"

namespace bp::cpu {

namespace {

// n_bytes from a multiple of `alignment` on; null when the kernel refuses.
uint8_t* map_aligned(size_t n_bytes, size_t alignment) {
  const size_t with_slack = n_bytes + alignment;
  if (with_slack < n_bytes) return nullptr;
  void* data =
      mmap(nullptr, with_slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  auto* begin = static_cast<uint8_t*>(data);
  auto* aligned =
      reinterpret_cast<uint8_t*>(round_up(reinterpret_cast<uintptr_t>(begin), alignment));
  if (aligned > begin) munmap(begin, static_cast<size_t>(aligned - begin));
  uint8_t* end = aligned + round_up(n_bytes, kSmallPage);
  if (end < begin + with_slack) munmap(end, static_cast<size_t>(begin + with_slack - end));
  return aligned;
}

}  // namespace

Result<AlignedBuffer> AlignedBuffer::allocate(size_t n_bytes, const char* what) {
  AlignedBuffer buffer;
  if (n_bytes == 0) return buffer;
  const bool is_huge = n_bytes >= kHugePage;
  uint8_t* data = map_aligned(n_bytes, is_huge ? kHugePage : kSmallPage);
  if (data == nullptr) {
    return out_of_memory(std::to_string(n_bytes) + " bytes for " + what + " could not be had");
  }
  buffer.data_ = data;
  buffer.size_ = n_bytes;
  // Only a hint; a kernel without huge pages refuses it.
  if (is_huge) madvise(data, n_bytes, MADV_HUGEPAGE);
  return buffer;
}

AlignedBuffer::~AlignedBuffer() {
  if (data_ != nullptr) munmap(data_, round_up(size_, kSmallPage));
}

}  // namespace bp::cpu
