#pragma once
// Metadata as the ABI shows it, and JSON files turned into it.

#include <deque>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backplane/format.h"
#include "backplane/status.hpp"
#include "formats/huggingface/json_reader.hpp"

namespace bp::huggingface {

// The key that lists those whose value is null: where a configuration lacks a key its class has a
// default, where it says null there is none.
inline constexpr std::string_view kNullKeys = "huggingface.null_keys";

class Metadata {
 public:
  Metadata() = default;
  Metadata(const Metadata&) = delete;
  Metadata& operator=(const Metadata&) = delete;

  // Each false where the key is taken or there are too many.
  bool add_string(const std::string& key, std::string value);
  bool add_strings(const std::string& key, std::vector<std::string> values);
  bool add_number(const std::string& key, JsonNumber value);
  // Of one type: unsigned unless one is negative or real.
  bool add_numbers(const std::string& key, const std::vector<JsonNumber>& values);
  bool add_bools(const std::string& key, const std::vector<bool>& values, bool is_array);
  // Of keys without a value, all of which `kNullKeys` lists from list_nulls() on.
  void add_null(std::string key) { nulls_.push_back(std::move(key)); }
  bool list_nulls();

  // Point into this object.
  [[nodiscard]] const std::vector<bp_metadata>& entries() const { return entries_; }

 private:
  bool add(const std::string& key, uint32_t type, bool is_array, uint64_t n, const void* data);
  bool add_numbers(const std::string& key, const std::vector<JsonNumber>& values, bool is_array);
  bool add_strings(const std::string& key, std::vector<std::string> values, bool is_array);

  std::vector<bp_metadata> entries_;
  std::set<std::string> keys_;  // whose nodes keep their place
  std::vector<std::string> nulls_;
  std::deque<std::string> texts_;
  std::deque<std::vector<bp_str>> strings_;
  std::deque<std::vector<uint64_t>> words_;
  std::deque<std::vector<uint8_t>> bytes_;
};

// The members of a JSON object, nested ones with their names joined by dots: {"a": {"b": 1}} under
// the prefix "config." is config.a.b. Arrays of anything but numbers, strings or booleans alone are
// left out.
Status add_json(const std::string& path, std::string_view text, const std::string& prefix,
                Metadata& metadata);

}  // namespace bp::huggingface
