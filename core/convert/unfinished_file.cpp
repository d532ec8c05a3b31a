#include "core/convert/unfinished_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "backplane/abandoned_files.hpp"
#include "core/base/read_file.hpp"

namespace bp::convert {

namespace {

// What a signal's handler removes: one file, the first of several that are written at once.
struct {
  std::atomic<bool> is_taken = false, is_named = false;
  char path[PATH_MAX] = {};
} removed_on_signals;
static_assert(std::atomic<bool>::is_always_lock_free, "needed in a signal handler");

// Whether it is the one.
bool name_for_signals(const std::string& partial) {
  auto& it = removed_on_signals;
  if (partial.size() >= sizeof it.path || it.is_taken.exchange(true)) return false;
  std::memcpy(it.path, partial.c_str(), partial.size() + 1);
  it.is_named.store(true, std::memory_order_release);
  return true;
}

void forget_for_signals() {
  removed_on_signals.is_named = false;
  removed_on_signals.is_taken.store(false, std::memory_order_release);
}

// Async-signal-safe. The signal is blocked until this returns, and ends the process then.
void on_end_signal(int signal) {
  const auto& it = removed_on_signals;
  if (it.is_named.load(std::memory_order_acquire)) ::unlink(it.path);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

Status not_written(const std::string& path) {
  return io_error(fmt::format("{} cannot be written: {}", path, std::strerror(errno)));
}

// With a '/' at its end, behind which nothing but a folder is found.
std::filesystem::path folder_of(const std::string& path) {
  return "." / std::filesystem::path(path).parent_path() / "";
}

// A new file, locked, so that it is not taken for one that was left behind; -1 with the reason in
// errno.
int open_locked(const std::string& partial) {
  while (true) {
    const int fd = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    struct stat status {};
    if (fd < 0 || ::flock(fd, LOCK_EX) != 0 || ::fstat(fd, &status) != 0) return fd;
    if (status.st_nlink > 0) return fd;
    ::close(fd);  // it was taken for one before it was locked
  }
}

}  // namespace

void remove_unfinished_on_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (std::signal(signal, on_end_signal) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

Status expect_file_place(const std::string& path) {
  if (!base::expect_regular_file(path).ok()) {
    return invalid_argument(path + " is no regular file; give the name of a file to write");
  }
  return ::access(folder_of(path).c_str(), W_OK | X_OK) == 0 ? Status() : not_written(path);
}

Result<UnfinishedFile> UnfinishedFile::create(const std::string& path) {
  BP_TRY(expect_file_place(path));
  remove_abandoned(folder_of(path), std::filesystem::path(path).filename().string() + ".partial-");
  // Named for signals before it is there: one may come as soon as it is.
  UnfinishedFile made(path, fmt::format("{}.partial-{}", path, ::getpid()));
  const int fd = open_locked(made.partial_);
  if (fd < 0) {
    made.partial_.clear();
    return not_written(path);
  }
  made.file_.reset(::fdopen(fd, "wb"));
  if (made.file_ == nullptr) return made.failure("opening");
  return made;
}

UnfinishedFile::UnfinishedFile(std::string path, std::string partial)
    : path_(std::move(path)),
      partial_(std::move(partial)),
      is_for_signals_(name_for_signals(partial_)) {}

UnfinishedFile::UnfinishedFile(UnfinishedFile&& other) noexcept
    : path_(std::move(other.path_)),
      partial_(std::exchange(other.partial_, {})),
      is_for_signals_(std::exchange(other.is_for_signals_, false)),
      file_(std::move(other.file_)) {}

UnfinishedFile::~UnfinishedFile() {
  if (!partial_.empty()) ::unlink(partial_.c_str());
  if (is_for_signals_) forget_for_signals();
}

Status UnfinishedFile::failure(const char* doing) const {
  return io_error(fmt::format("{}: {} failed: {}", path_, doing, std::strerror(errno)));
}

Status UnfinishedFile::finish() {
  if (std::fflush(file_.get()) != 0 || ::fsync(::fileno(file_.get())) != 0) {
    return failure("writing");
  }
  if (std::rename(partial_.c_str(), path_.c_str()) != 0) return failure("renaming");
  partial_.clear();
  return {};
}

}  // namespace bp::convert
