#pragma once
// Typed lookups over the metadata of a model file (backplane/format.h). A value is accepted where
// it converts without loss: any integer in range for an integer, any number for a double.

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "backplane/format.h"
#include "backplane/status.hpp"

namespace bp {

template <class T>
concept MetadataValue =
    std::integral<T> || std::same_as<T, double> || std::same_as<T, std::string_view>;

namespace metadata_detail {

[[nodiscard]] inline std::string_view view(const bp_str& s) {
  return s.size == 0 ? std::string_view() : std::string_view(s.data, s.size);
}

[[nodiscard]] constexpr std::string_view type_name(uint32_t type) {
  switch (type) {
    case BP_META_U64:
      return "u64";
    case BP_META_I64:
      return "i64";
    case BP_META_F64:
      return "f64";
    case BP_META_BOOL:
      return "bool";
    case BP_META_STRING:
      return "string";
    default:
      return "unknown type";
  }
}

template <MetadataValue T>
[[nodiscard]] std::string expected_name() {
  if constexpr (std::same_as<T, bool>) return "bool";
  if constexpr (std::same_as<T, double>) return "number";
  if constexpr (std::same_as<T, std::string_view>) return "string";
  return (std::is_signed_v<T> ? "i" : "u") + std::to_string(8 * sizeof(T));
}

template <std::integral T, std::integral From>
[[nodiscard]] std::optional<T> narrow(From value) {
  return std::in_range<T>(value) ? std::optional<T>(static_cast<T>(value)) : std::nullopt;
}

// Element i of the entry as T; nullopt when its type does not convert or its value does not fit.
template <MetadataValue T>
[[nodiscard]] std::optional<T> element(const bp_metadata& entry, uint64_t i) {
  const auto at = [&]<class From>(const From* values) { return values[i]; };
  const auto u64 = [&] { return at(static_cast<const uint64_t*>(entry.data)); };
  const auto i64 = [&] { return at(static_cast<const int64_t*>(entry.data)); };
  if constexpr (std::same_as<T, bool>) {
    if (entry.type == BP_META_BOOL) return at(static_cast<const uint8_t*>(entry.data)) != 0;
  } else if constexpr (std::integral<T>) {
    if (entry.type == BP_META_U64) return narrow<T>(u64());
    if (entry.type == BP_META_I64) return narrow<T>(i64());
  } else if constexpr (std::same_as<T, double>) {
    if (entry.type == BP_META_F64) return at(static_cast<const double*>(entry.data));
    if (entry.type == BP_META_U64) return static_cast<double>(u64());
    if (entry.type == BP_META_I64) return static_cast<double>(i64());
  } else if (entry.type == BP_META_STRING) {
    return view(at(static_cast<const bp_str*>(entry.data)));
  }
  return std::nullopt;
}

// What stands at element i, for an error message: "u64 5000000000".
[[nodiscard]] inline std::string describe(const bp_metadata& entry, uint64_t i) {
  const std::string type(type_name(entry.type));
  if (entry.type == BP_META_U64) return type + " " + std::to_string(*element<uint64_t>(entry, i));
  if (entry.type == BP_META_I64) return type + " " + std::to_string(*element<int64_t>(entry, i));
  return type;
}

}  // namespace metadata_detail

// A checked view of one array; lives as long as the model file.
template <MetadataValue T>
class MetadataArray {
 public:
  // Precondition: every element converts to T.
  explicit MetadataArray(const bp_metadata& entry) : entry_(&entry) {}

  [[nodiscard]] uint64_t size() const { return entry_->n; }
  [[nodiscard]] T operator[](uint64_t i) const { return *metadata_detail::element<T>(*entry_, i); }

 private:
  const bp_metadata* entry_;
};

class MetadataView {
 public:
  MetadataView() = default;
  MetadataView(std::span<const bp_metadata> entries) : entries_(entries) {}  // NOLINT: implicit

  [[nodiscard]] std::span<const bp_metadata> entries() const { return entries_; }

  [[nodiscard]] const bp_metadata* find(std::string_view key) const {
    for (const bp_metadata& entry : entries_) {
      if (metadata_detail::view(entry.key) == key) return &entry;
    }
    return nullptr;
  }
  [[nodiscard]] bool contains(std::string_view key) const { return find(key) != nullptr; }

  template <MetadataValue T>
  Result<T> get(std::string_view key) const {
    const bp_metadata* entry = find(key);
    if (entry == nullptr) return missing<T>(key, false);
    if (entry->is_array != 0) return mismatch<T>(*entry, false, "an array");
    if (auto value = metadata_detail::element<T>(*entry, 0)) return *value;
    return mismatch<T>(*entry, false, metadata_detail::describe(*entry, 0));
  }

  // The fallback stands in for an absent key only; a value of the wrong type is an error.
  template <MetadataValue T>
  Result<T> get_or(std::string_view key, T fallback) const {
    return contains(key) ? get<T>(key) : Result<T>(fallback);
  }

  template <MetadataValue T>
  Result<MetadataArray<T>> array(std::string_view key) const {
    const bp_metadata* entry = find(key);
    if (entry == nullptr) return missing<T>(key, true);
    if (entry->is_array == 0) return mismatch<T>(*entry, true, "a scalar");
    for (uint64_t i = 0; i < entry->n; ++i) {
      if (!metadata_detail::element<T>(*entry, i)) {
        return mismatch<T>(*entry, true,
                           metadata_detail::describe(*entry, i) + " at index " + std::to_string(i));
      }
    }
    return MetadataArray<T>(*entry);
  }

 private:
  template <MetadataValue T>
  static std::string expectation(bool is_array) {
    return (is_array ? "array of " : "") + metadata_detail::expected_name<T>();
  }

  template <MetadataValue T>
  static Status missing(std::string_view key, bool is_array) {
    return invalid_argument("metadata \"" + std::string(key) + "\" is missing: expected " +
                            expectation<T>(is_array));
  }

  template <MetadataValue T>
  static Status mismatch(const bp_metadata& entry, bool is_array, const std::string& found) {
    return invalid_argument("metadata \"" + std::string(metadata_detail::view(entry.key)) +
                            "\": expected " + expectation<T>(is_array) + ", found " + found);
  }

  std::span<const bp_metadata> entries_;
};

}  // namespace bp
