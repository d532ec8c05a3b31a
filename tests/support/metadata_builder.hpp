#pragma once
// Builds the metadata table that a format plugin would give, for tests without a file.

#include <deque>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/format.h"

namespace bp::testing {

// Owns what the entries point to. Setting a key again replaces its value.
class MetadataBuilder {
 public:
  MetadataBuilder() = default;
  MetadataBuilder(MetadataBuilder&&) = default;
  MetadataBuilder& operator=(MetadataBuilder&&) = default;

  MetadataBuilder& u64(std::string_view key, uint64_t value) {
    return set(key, BP_META_U64, false, store(integers_, {value}), 1);
  }
  MetadataBuilder& i64(std::string_view key, int64_t value) {
    return set(key, BP_META_I64, false, store(signed_integers_, {value}), 1);
  }
  MetadataBuilder& f64(std::string_view key, double value) {
    return set(key, BP_META_F64, false, store(numbers_, {value}), 1);
  }
  MetadataBuilder& boolean(std::string_view key, bool value) {
    return set(key, BP_META_BOOL, false, store(bytes_, {static_cast<uint8_t>(value)}), 1);
  }
  MetadataBuilder& string(std::string_view key, std::string_view value) {
    return set(key, BP_META_STRING, false, store(strings_, {text(value)}), 1);
  }
  MetadataBuilder& u64s(std::string_view key, std::vector<uint64_t> values) {
    return set(key, BP_META_U64, true, store(integers_, values), values.size());
  }
  MetadataBuilder& i64s(std::string_view key, std::vector<int64_t> values) {
    return set(key, BP_META_I64, true, store(signed_integers_, values), values.size());
  }
  MetadataBuilder& f64s(std::string_view key, std::vector<double> values) {
    return set(key, BP_META_F64, true, store(numbers_, values), values.size());
  }
  MetadataBuilder& booleans(std::string_view key, const std::vector<bool>& values) {
    return set(key, BP_META_BOOL, true, store(bytes_, {values.begin(), values.end()}),
               values.size());
  }
  MetadataBuilder& strings(std::string_view key, const std::vector<std::string>& values) {
    std::vector<bp_str> views;
    for (const std::string& value : values) views.push_back(text(value));
    return set(key, BP_META_STRING, true, store(strings_, views), values.size());
  }
  MetadataBuilder& remove(std::string_view key) {
    std::erase_if(entries_, [&](const bp_metadata& e) { return key_of(e) == key; });
    return *this;
  }

  [[nodiscard]] std::span<const bp_metadata> entries() const { return entries_; }

 private:
  static std::string_view key_of(const bp_metadata& e) { return {e.key.data, e.key.size}; }

  bp_str text(std::string_view value) {
    const std::string& kept = texts_.emplace_back(value);
    return {kept.data(), kept.size()};
  }

  template <class T>
  static const void* store(std::deque<std::vector<T>>& kept, std::vector<T> values) {
    return kept.emplace_back(std::move(values)).data();
  }

  MetadataBuilder& set(std::string_view key, uint32_t type, bool is_array, const void* data,
                       uint64_t n) {
    remove(key);
    entries_.push_back({text(key), type, is_array ? 1u : 0u, n, data});
    return *this;
  }

  std::vector<bp_metadata> entries_;
  std::deque<std::string> texts_;
  std::deque<std::vector<uint64_t>> integers_;
  std::deque<std::vector<int64_t>> signed_integers_;
  std::deque<std::vector<double>> numbers_;
  std::deque<std::vector<uint8_t>> bytes_;
  std::deque<std::vector<bp_str>> strings_;
};

}  // namespace bp::testing
