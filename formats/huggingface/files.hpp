#pragma once
// The small files of a model's folder, read whole.

#include <cstdint>
#include <string>

#include "backplane/status.hpp"

namespace bp::huggingface {

// "PATH: RULE", the path cut to fit an error message.
Status invalid(const std::string& path, const std::string& rule);

[[nodiscard]] bool exists(const std::string& path);

// Links are followed, since download caches are made of them, and must lead to regular files.
Result<std::string> read_whole(const std::string& path, uint64_t max_bytes);

// A message of its own for the small text that git-lfs leaves in a file's place.
Status check_lfs_pointer(const std::string& path, std::string_view head);

}  // namespace bp::huggingface
