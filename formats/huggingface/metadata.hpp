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
  // Of keys without a value or a type for it, which are listed from list_others() on (see
  // backplane/json_metadata.hpp).
  void add_null(std::string key) { nulls_.push_back(std::move(key)); }
  void add_untyped(std::string key, std::string_view json);
  bool list_others();

  // Point into this object.
  [[nodiscard]] const std::vector<bp_metadata>& entries() const { return entries_; }

 private:
  bool add(const std::string& key, uint32_t type, bool is_array, uint64_t n, const void* data);
  bool add_numbers(const std::string& key, const std::vector<JsonNumber>& values, bool is_array);
  bool add_strings(const std::string& key, std::vector<std::string> values, bool is_array);

  std::vector<bp_metadata> entries_;
  std::set<std::string> keys_;  // whose nodes keep their place
  std::vector<std::string> nulls_;
  std::vector<std::string> untyped_keys_, untyped_values_;
  std::deque<std::string> texts_;
  std::deque<std::vector<bp_str>> strings_;
  std::deque<std::vector<uint64_t>> words_;
  std::deque<std::vector<uint8_t>> bytes_;
};

// The members of a JSON object, nested ones with their names joined by dots: {"a": {"b": 1}} under
// the prefix "config." is config.a.b.
Status add_json(const std::string& path, std::string_view text, const std::string& prefix,
                Metadata& metadata);

}  // namespace bp::huggingface
