#include "core/base/read_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backplane/file_descriptor.hpp"

namespace bp::base {

namespace {

constexpr size_t kChunk = 1 << 16;
constexpr int kWaitForWriterMs = 2000;

void wait_for_bytes(int fd, int limit_ms) {
  pollfd polled{fd, POLLIN, 0};
  static_cast<void>(::poll(&polled, 1, limit_ms));
}

// Room for one more chunk. By doubling, but for the last time, which is to be no more than needed.
void grow(std::string& bytes, uint64_t max_bytes) {
  const size_t needed = bytes.size() + kChunk;
  if (needed > bytes.capacity()) {
    const size_t doubled = std::max(needed, 2 * bytes.capacity());
    bytes.reserve(doubled < max_bytes ? doubled : max_bytes + kChunk);
  }
  bytes.resize(needed);
}

// At most one chunk is read beyond the limit.
Status append_all(int fd, const std::string& name, uint64_t max_bytes, std::string& bytes) {
  while (bytes.size() <= max_bytes) {
    const size_t before = bytes.size();
    grow(bytes, max_bytes);
    const ssize_t n = ::read(fd, bytes.data() + before, kChunk);
    const int error = errno;
    bytes.resize(before + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n == 0) return {};
    if (n > 0 || error == EINTR) continue;
    if (error != EAGAIN) return io_error(name + ": cannot be read: " + std::strerror(error));
    wait_for_bytes(fd, -1);
  }
  return invalid_argument(fmt::format(
      "{}: larger than {} MiB, the most that is read; give a part of it", name, max_bytes >> 20));
}

}  // namespace

Result<std::string> read_open_file(int fd, const std::string& name, uint64_t max_bytes) {
  std::string bytes;
  try {
    BP_TRY(append_all(fd, name, max_bytes, bytes));
  } catch (const std::bad_alloc&) {
    return out_of_memory(
        fmt::format("{}: no memory is left after {} MiB of it", name, bytes.size() >> 20));
  }
  return bytes;
}

Result<std::string> read_file(const std::string& path, uint64_t max_bytes) {
  // Without O_NONBLOCK the opening of a pipe waits for a writer.
  const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return io_error(path + ": cannot be opened: " + std::strerror(errno));
  struct stat status {};
  if (::fstat(file.fd, &status) != 0) {
    return io_error(path + ": cannot be examined: " + std::strerror(errno));
  }
  if (S_ISDIR(status.st_mode)) return io_error(path + ": is a folder");
  const bool is_pipe = S_ISFIFO(status.st_mode);
  if (is_pipe) wait_for_bytes(file.fd, kWaitForWriterMs);
  BP_ASSIGN(std::string bytes, read_open_file(file.fd, path, max_bytes));
  if (is_pipe && bytes.empty()) return io_error(path + ": is a pipe that nobody writes to");
  return bytes;
}

Status expect_regular_file(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return {};
  return io_error(path + ": not a regular file");
}

}  // namespace bp::base
