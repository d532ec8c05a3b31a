#include "formats/gguf/cursor.hpp"

namespace bp::gguf {

Result<std::string_view> Cursor::read_string(uint64_t min, uint64_t max, const char* what) {
  const uint64_t start = offset_;
  BP_ASSIGN(const uint64_t n_bytes, read<uint64_t>(what));
  if (n_bytes < min || n_bytes > max) {
    return invalid(start, std::string(what) + " of " + std::to_string(n_bytes) +
                              " bytes; allowed are " + std::to_string(min) + " to " +
                              std::to_string(max));
  }
  BP_ASSIGN(const uint8_t* data, take(n_bytes, what));
  return std::string_view(reinterpret_cast<const char*>(data), n_bytes);
}

Status Cursor::too_long(uint64_t n, const char* what) const {
  const std::string needs = std::string(what) + " needs " + std::to_string(n) + " bytes, but ";
  if (n > remaining()) {
    return invalid(offset_, needs + "only " + std::to_string(remaining()) + " of the file's " +
                                std::to_string(bytes_->file_bytes()) + " remain");
  }
  return invalid(offset_, needs + "the " + section_ + " may reach to offset " +
                              std::to_string(end_) + " at most");
}

}  // namespace bp::gguf
