#pragma once
// Metadata as a format plugin would give them, with the values they point to.

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/format.h"

namespace bp::convert {

class MetadataTable {
 public:
  // A key that is there keeps its first value.
  void put_int(std::string_view key, std::vector<int64_t> values, bool is_array = false);
  void put_signed(std::string_view key, std::vector<int64_t> values);  // an array
  void put_float(std::string_view key, std::vector<double> values, bool is_array = false);
  void put_bool(std::string_view key, std::vector<bool> values, bool is_array = false);
  void put_string(std::string_view key, std::string_view value);
  void put_strings(std::string_view key, std::span<const std::string_view> values);

  [[nodiscard]] bool contains(std::string_view key) const;
  [[nodiscard]] std::span<const bp_metadata> entries() const { return entries_; }

 private:
  bp_str keep(std::string_view text);
  void add(std::string_view key, uint32_t type, bool is_array, uint64_t n, const void* data);

  std::vector<bp_metadata> entries_;
  std::deque<std::string> texts_;
  std::deque<std::vector<int64_t>> ints_;
  std::deque<std::vector<double>> floats_;
  std::deque<std::vector<uint8_t>> bools_;
  std::deque<std::vector<bp_str>> strings_;
};

}  // namespace bp::convert
