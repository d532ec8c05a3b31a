#include "formats/gguf/header_bytes.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "backplane/text.hpp"
#include "formats/gguf/limits.hpp"

namespace bp::gguf {

namespace {

// The first read, and the most that is read ahead; in between each read doubles what is there.
constexpr uint64_t kFirstRead = uint64_t{1} << 16;
constexpr uint64_t kMaxReadAhead = uint64_t{1} << 22;

Status system_error(const std::string& path, const char* what, int error) {
  return io_error(shortened_path(path) + ": " + what + ": " +
                  std::generic_category().message(error));
}

}  // namespace

Result<HeaderBytes> HeaderBytes::open(const std::string& path) {
  HeaderBytes bytes;
  bytes.path_ = path;
  // Non-blocking, because opening a named pipe would wait for its writer.
  bytes.file_ = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (bytes.file_.get() < 0) return system_error(path, "cannot open", errno);
  struct stat info = {};
  if (::fstat(bytes.file_.get(), &info) != 0) return system_error(path, "cannot stat", errno);
  if (!S_ISREG(info.st_mode)) {
    return invalid_argument(shortened_path(path) + ": not a regular file");
  }
  bytes.file_bytes_ = static_cast<uint64_t>(info.st_size);
  if (bytes.file_bytes_ == 0) return bytes;

  const uint64_t capacity = std::min(bytes.file_bytes_, kMaxHeaderBytes);
  bytes.memory_ = AddressSpace(capacity);
  if (bytes.memory_.data() == nullptr) {
    return out_of_memory(shortened_path(path) + ": no address space of " +
                         std::to_string(capacity) + " bytes for its header");
  }
  bytes.data_ = bytes.memory_.data();
  return bytes;
}

HeaderBytes HeaderBytes::of_memory(std::string name, std::span<const uint8_t> bytes) {
  HeaderBytes header;
  header.path_ = std::move(name);
  header.file_bytes_ = bytes.size();
  header.n_loaded_ = bytes.size();
  header.data_ = bytes.data();
  return header;
}

Status HeaderBytes::read_until(uint64_t end) {
  const uint64_t capacity = memory_.size();
  if (end > capacity) {
    return invalid_argument(
        message(end, "the header ends after more than " + std::to_string(capacity) + " bytes"));
  }
  const uint64_t read_ahead = std::clamp(n_loaded_, kFirstRead, kMaxReadAhead);
  const uint64_t target = std::min(capacity, std::max(end, n_loaded_ + read_ahead));
  while (n_loaded_ < target) {
    const ssize_t n = ::pread(file_.get(), memory_.data() + n_loaded_, target - n_loaded_,
                              static_cast<off_t>(n_loaded_));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error(path_, "cannot read", errno);
    if (n == 0) {
      return io_error(message(n_loaded_, "the file became shorter while it was read; it had " +
                                             std::to_string(file_bytes_) + " bytes"));
    }
    n_loaded_ += static_cast<uint64_t>(n);
  }
  return {};
}

std::string HeaderBytes::message(uint64_t offset, const std::string& rule) const {
  return shortened_path(path_) + ": offset " + std::to_string(offset) + ": " + rule;
}

}  // namespace bp::gguf
