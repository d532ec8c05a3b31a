#pragma once
// Lookups over the element types of backplane/dtype.h.

#include <array>
#include <cstdint>
#include <optional>
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
[[nodiscard]] constexpr std::optional<bp_dtype> dtype_from_name(std::string_view name) {
  for (bp_dtype t = 1; t < BP_DTYPE_COUNT; ++t) {
    if (kDtypes[t].name == name) return t;
  }
  return std::nullopt;
}

}  // namespace bp
