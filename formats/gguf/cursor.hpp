#pragma once
// Reads little-endian values one after another, never beyond the end of the file or of the section.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "formats/gguf/header_bytes.hpp"
#include "formats/gguf/limits.hpp"

namespace bp::gguf {

static_assert(std::endian::native == std::endian::little,
              "values are read as they lie in the file");

class Cursor {
 public:
  // `bytes` outlive the cursor.
  explicit Cursor(HeaderBytes& bytes) : bytes_(&bytes) {}

  [[nodiscard]] uint64_t offset() const { return offset_; }
  [[nodiscard]] uint64_t remaining() const { return bytes_->file_bytes() - offset_; }
  // The section that follows may reach to this offset.
  void limit_to(uint64_t end, const char* section) { end_ = end, section_ = section; }

  // That n bytes follow in the file and in the section; reads nothing.
  Status check(uint64_t n, const char* what) const {
    if (n <= remaining() && n <= end_ - offset_) return {};
    return too_long(n, what);
  }

  // The next n bytes; the pointer lives as long as the HeaderBytes.
  Result<const uint8_t*> take(uint64_t n, const char* what) {
    BP_TRY(check(n, what));
    BP_TRY(bytes_->load(offset_ + n));
    const uint8_t* start = bytes_->data() + offset_;
    offset_ += n;
    return start;
  }

  template <class T>
  Result<T> read(const char* what) {
    BP_ASSIGN(const uint8_t* start, take(sizeof(T), what));
    T value;
    std::memcpy(&value, start, sizeof value);
    return value;
  }

  // As read_string(0, max), where nothing has to be loaded and nothing is wrong; otherwise false,
  // and read_string says why. A vocabulary has some 300,000 strings.
  bool try_string(uint64_t max, std::string_view& text) {
    const uint64_t available = std::min(bytes_->n_loaded(), end_) - offset_;
    uint64_t n_bytes = 0;
    if (available < sizeof n_bytes) return false;
    const uint8_t* start = bytes_->data() + offset_;
    std::memcpy(&n_bytes, start, sizeof n_bytes);
    if (n_bytes > std::min(max, available - sizeof n_bytes)) return false;
    text = {reinterpret_cast<const char*>(start) + sizeof n_bytes, n_bytes};
    offset_ += sizeof n_bytes + n_bytes;
    return true;
  }
  // A length of 64 bits between min and max, and that many bytes.
  Result<std::string_view> read_string(uint64_t min, uint64_t max, const char* what);

  [[nodiscard]] Status invalid(uint64_t offset, const std::string& rule) const {
    return invalid_argument(bytes_->message(offset, rule));
  }
  [[nodiscard]] Status not_supported(uint64_t offset, const std::string& rule) const {
    return unsupported(bytes_->message(offset, rule));
  }

 private:
  [[nodiscard]] Status too_long(uint64_t n, const char* what) const;

  HeaderBytes* bytes_;
  uint64_t offset_ = 0;
  uint64_t end_ = kMaxHeaderBytes;
  const char* section_ = "header";
};

}  // namespace bp::gguf
