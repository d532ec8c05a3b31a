#pragma once
// Owners of system resources.

#include <cstdint>

namespace bp::gguf {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;  // -1: none
};

// Zeroed private memory whose pages exist once they are written.
class AddressSpace {
 public:
  AddressSpace() = default;
  // data() is null when the system refuses.
  explicit AddressSpace(uint64_t n_bytes);
  AddressSpace(AddressSpace&& other) noexcept;
  AddressSpace& operator=(AddressSpace&& other) noexcept;
  ~AddressSpace();

  // Keeps the first n_bytes, if there are so many.
  void shrink(uint64_t n_bytes);

  [[nodiscard]] uint8_t* data() const { return data_; }
  [[nodiscard]] uint64_t size() const { return n_bytes_; }

 private:
  uint8_t* data_ = nullptr;
  uint64_t n_bytes_ = 0;
};

}  // namespace bp::gguf
