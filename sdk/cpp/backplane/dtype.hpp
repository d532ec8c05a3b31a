#pragma once
// Lookups over the element types of backplane/dtype.h.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "backplane/dtype.h"

namespace bp {

struct DtypeInfo {
  std::string_view name;    // "q4_K"
  uint32_t block_elements;  // values in a block
  uint32_t block_bytes;     // bytes of a block
};

inline constexpr std::array<DtypeInfo, BP_DTYPE_COUNT> kDtypes = {{{"none", 1, 0},
#define BP_DTYPE_ROW_(NAME, name, elements, bytes) {name, elements, bytes},
                                                                   BP_DTYPE_LIST(BP_DTYPE_ROW_)
#undef BP_DTYPE_ROW_
}};

[[nodiscard]] constexpr bool is_known_dtype(bp_dtype t) {
  return t > 0 && t < BP_DTYPE_COUNT;
}
// Precondition of the following: is_known_dtype(t).
[[nodiscard]] constexpr const DtypeInfo& dtype_info(bp_dtype t) {
  return kDtypes[t];
}
[[nodiscard]] constexpr std::string_view dtype_name(bp_dtype t) {
  return t < BP_DTYPE_COUNT ? kDtypes[t].name : "unknown";
}
[[nodiscard]] constexpr bool is_block_quantised(bp_dtype t) {
  return kDtypes[t].block_elements > 1;
}
// Bytes of a row of n elements; n must be divisible by block_elements.
[[nodiscard]] constexpr uint64_t row_bytes(bp_dtype t, uint64_t n) {
  return n / kDtypes[t].block_elements * kDtypes[t].block_bytes;
}
// Bytes of a tensor without gaps; nullopt for an unknown type, no or empty dimensions, rows of no
// whole blocks, or more than 2^48 elements.
[[nodiscard]] constexpr std::optional<uint64_t> tensor_bytes(bp_dtype t,
                                                             std::span<const uint64_t> dims) {
  constexpr uint64_t kMaxElements = uint64_t{1} << 48;
  if (!is_known_dtype(t) || dims.empty() || dims.back() % kDtypes[t].block_elements != 0) {
    return std::nullopt;
  }
  uint64_t n = 1;
  for (const uint64_t dim : dims) {
    if (dim == 0 || dim > kMaxElements / n) return std::nullopt;
    n *= dim;
  }
  return row_bytes(t, n);
}
[[nodiscard]] constexpr std::optional<bp_dtype> dtype_from_name(std::string_view name) {
  for (bp_dtype t = 1; t < BP_DTYPE_COUNT; ++t) {
    if (kDtypes[t].name == name) return t;
  }
  return std::nullopt;
}

}  // namespace bp
