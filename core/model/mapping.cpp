#include "core/model/mapping.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backplane/file_descriptor.hpp"

namespace bp::model {

namespace {

Status system_error(const std::string& path, const char* action) {
  return io_error(path + ": cannot be " + action + ": " + std::strerror(errno));
}

}  // namespace

Result<std::unique_ptr<Mapping>> Mapping::open(const std::string& path) {
  // The mapping outlives it.
  const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return system_error(path, "opened");
  struct stat status {};
  if (::fstat(file.fd, &status) != 0) return system_error(path, "examined");
  if (!S_ISREG(status.st_mode)) return io_error(path + ": not a regular file");
  if (status.st_size <= 0) return invalid_argument(path + ": the file is empty");
  const auto n_bytes = static_cast<size_t>(status.st_size);
  void* data = ::mmap(nullptr, n_bytes, PROT_READ, MAP_SHARED, file.fd, 0);
  if (data == MAP_FAILED) return system_error(path, "mapped");
  // Huge pages where the file system has them; a refusal costs nothing but time.
  static_cast<void>(::madvise(data, n_bytes, MADV_HUGEPAGE));
  const int64_t modified_ns =
      int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  return std::unique_ptr<Mapping>(
      new Mapping(path, {static_cast<const std::byte*>(data), n_bytes}, modified_ns));
}

Mapping::~Mapping() {
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void Mapping::ask_for(uint64_t first, uint64_t n_bytes) const {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t begin = first / page * page;
  static_cast<void>(::madvise(const_cast<std::byte*>(bytes_.data()) + begin,
                              first + n_bytes - begin, MADV_WILLNEED));
}

void Mapping::drop(uint64_t first, uint64_t n_bytes) const {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t begin = (first + page - 1) / page * page, end = (first + n_bytes) / page * page;
  if (begin >= end) return;
  static_cast<void>(
      ::madvise(const_cast<std::byte*>(bytes_.data()) + begin, end - begin, MADV_DONTNEED));
}

}  // namespace bp::model
