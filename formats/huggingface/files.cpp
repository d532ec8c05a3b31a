#include "formats/huggingface/files.hpp"

#include <filesystem>

#include "backplane/file.hpp"
#include "backplane/text.hpp"

namespace bp::huggingface {

Status invalid(const std::string& path, const std::string& rule) {
  return invalid_argument(shortened_path(path) + ": " + rule);
}

bool exists(const std::string& path) {
  // A link that leads nowhere exists too, so that it is an error and not an absent file.
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(path, error));
}

Result<std::string> read_whole(const std::string& path, uint64_t max_bytes) {
  BP_ASSIGN(const uint64_t size, file_size(path));
  if (size > max_bytes) {
    return invalid(path, std::to_string(size) + " bytes; allowed are " + std::to_string(max_bytes));
  }
  BP_ASSIGN(std::string bytes, read_file(path, 0, size));
  BP_TRY(check_lfs_pointer(path, bytes));
  return bytes;
}

Status check_lfs_pointer(const std::string& path, std::string_view head) {
  if (!head.starts_with("version https://git-lfs")) return {};
  return invalid(path, "a git-lfs pointer, not the file itself: fetch it with `git lfs pull`");
}

}  // namespace bp::huggingface
