#include "sdk/conformance/kinds/damaged_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "sdk/conformance/test.hpp"

namespace bp::conformance {

namespace fs = std::filesystem;

DamagedFile::DamagedFile(const fs::path& original) {
  std::ifstream in(original, std::ios::binary);
  if (!in || !fs::is_regular_file(original)) {
    throw Skip(original.string() + " is no file that could be damaged");
  }
  bytes_.assign(std::istreambuf_iterator<char>(in), {});
  if (folder().empty()) throw Skip("no folder for a copy of the model can be made");
  path_ = folder() / original.filename();
  fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd_ < 0) throw Skip(path_.string() + " cannot be written");
  restore_all();
}

DamagedFile::~DamagedFile() {
  if (fd_ >= 0) close(fd_);
}

void DamagedFile::truncate(uint64_t n_bytes) const {
  require(ftruncate(fd_, static_cast<off_t>(n_bytes)) == 0, "the copy cannot be truncated");
}

void DamagedFile::overwrite(uint64_t offset, const void* bytes, uint64_t n) const {
  const ssize_t written = pwrite(fd_, bytes, n, static_cast<off_t>(offset));
  require(written == static_cast<ssize_t>(n), "the copy cannot be written");
}

void DamagedFile::restore(uint64_t offset, uint64_t n) const {
  overwrite(offset, bytes_.data() + offset, n);
}

void DamagedFile::restore_all() const {
  truncate(bytes_.size());
  if (!bytes_.empty()) restore(0, bytes_.size());
}

}  // namespace bp::conformance
