#include "core/convert/metadata_table.hpp"

#include <algorithm>

#include "backplane/plugin.hpp"

namespace bp::convert {

bp_str MetadataTable::keep(std::string_view text) {
  return to_bp_str(texts_.emplace_back(text));
}

bool MetadataTable::contains(std::string_view key) const {
  return std::ranges::any_of(entries_, [&](const bp_metadata& e) { return view(e.key) == key; });
}

void MetadataTable::add(std::string_view key, uint32_t type, bool is_array, uint64_t n,
                        const void* data) {
  if (!contains(key)) entries_.push_back({keep(key), type, is_array ? 1u : 0u, n, data});
}

// Unsigned where none is negative, as files write counts and ids.
void MetadataTable::put_int(std::string_view key, std::vector<int64_t> values, bool is_array) {
  const bool is_signed = std::ranges::any_of(values, [](int64_t value) { return value < 0; });
  const auto& kept = ints_.emplace_back(std::move(values));
  add(key, is_signed ? BP_META_I64 : BP_META_U64, is_array, kept.size(), kept.data());
}

void MetadataTable::put_signed(std::string_view key, std::vector<int64_t> values) {
  const auto& kept = ints_.emplace_back(std::move(values));
  add(key, BP_META_I64, true, kept.size(), kept.data());
}

void MetadataTable::put_float(std::string_view key, std::vector<double> values, bool is_array) {
  const auto& kept = floats_.emplace_back(std::move(values));
  add(key, BP_META_F64, is_array, kept.size(), kept.data());
}

void MetadataTable::put_bool(std::string_view key, std::vector<bool> values, bool is_array) {
  const auto& kept = bools_.emplace_back(values.begin(), values.end());
  add(key, BP_META_BOOL, is_array, kept.size(), kept.data());
}

void MetadataTable::put_string(std::string_view key, std::string_view value) {
  const auto& kept = strings_.emplace_back(1, keep(value));
  add(key, BP_META_STRING, false, 1, kept.data());
}

void MetadataTable::put_strings(std::string_view key, std::span<const std::string_view> values) {
  auto& kept = strings_.emplace_back();
  for (const std::string_view value : values) kept.push_back(keep(value));
  add(key, BP_META_STRING, true, kept.size(), kept.data());
}

}  // namespace bp::convert
