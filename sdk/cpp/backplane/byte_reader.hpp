#pragma once
// Reading little-endian bytes that nobody vouches for. The first broken rule is kept, and from then
// on every read gives zeros: a parser checks ok() before it loops or allocates by what it read.

#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "backplane/plugin.h"

namespace bp {

class ByteReader {
 public:
  ByteReader() = default;
  // The bytes outlive the reader; first_offset is where they begin in their file.
  explicit ByteReader(std::string_view bytes, uint64_t first_offset = 0)
      : bytes_(bytes), first_offset_(first_offset) {}

  [[nodiscard]] bool ok() const { return fault_.empty(); }
  // "offset 24: a name must be unique"; empty while ok.
  [[nodiscard]] const std::string& fault() const { return fault_; }
  [[nodiscard]] uint64_t left() const { return bytes_.size() - at_; }

  // Keeps the rule as the fault if it is broken and the first to be; answers ok().
  bool require(bool holds, std::string_view rule) {
    if (!holds && ok()) {
      fault_ = "offset " + std::to_string(first_offset_ + at_) + ": " + std::string(rule);
    }
    return ok();
  }

  // The next n bytes; nullptr where they are not there, or after a fault.
  const char* take(uint64_t n) {
    if (!ok() || !require(n <= left(), std::to_string(n) + " bytes must lie here, there are " +
                                           std::to_string(left()))) {
      return nullptr;
    }
    const char* from = bytes_.data() + at_;
    at_ += n;
    return from;
  }

  template <class T>
  T number() {
    static_assert(std::is_arithmetic_v<T> && std::endian::native == std::endian::little);
    T value{};
    if (const char* from = take(sizeof value)) std::memcpy(&value, from, sizeof value);
    return value;
  }

  // u64 bytes, then the bytes, which are not copied.
  bp_str text() {
    const auto n = number<uint64_t>();
    const char* from = take(n);
    return {from, from == nullptr ? 0 : static_cast<size_t>(n)};
  }

 private:
  std::string_view bytes_;
  uint64_t first_offset_ = 0;
  uint64_t at_ = 0;
  std::string fault_;
};

}  // namespace bp
