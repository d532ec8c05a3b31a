#include "formats/gguf/system.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <utility>

namespace bp::gguf {

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

AddressSpace::AddressSpace(uint64_t n_bytes) {
  void* memory = ::mmap(nullptr, n_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  data_ = static_cast<uint8_t*>(memory);
  n_bytes_ = n_bytes;
}

void AddressSpace::shrink(uint64_t n_bytes) {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t kept = (n_bytes + page - 1) / page * page;
  if (kept == 0 || kept >= n_bytes_) return;
  ::munmap(data_ + kept, n_bytes_ - kept);
  n_bytes_ = kept;
}

AddressSpace::AddressSpace(AddressSpace&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), n_bytes_(std::exchange(other.n_bytes_, 0)) {}

AddressSpace& AddressSpace::operator=(AddressSpace&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(n_bytes_, other.n_bytes_);
  return *this;
}

AddressSpace::~AddressSpace() {
  if (data_ != nullptr) ::munmap(data_, n_bytes_);
}

}  // namespace bp::gguf
