#pragma once
// Files that processes left behind which were killed while they wrote. Whoever writes one holds its
// lock (flock), which ends with the process.

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "backplane/file_descriptor.hpp"

namespace bp {

// Removes those of the folder whose names begin with `prefix` and that nobody has locked.
inline void remove_abandoned(const std::filesystem::path& folder, const std::string& prefix) {
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (!entry->path().filename().string().starts_with(prefix)) continue;
    const FileDescriptor file{::open(entry->path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (file.fd >= 0 && ::flock(file.fd, LOCK_EX | LOCK_NB) == 0) ::unlink(entry->path().c_str());
  }
}

}  // namespace bp
