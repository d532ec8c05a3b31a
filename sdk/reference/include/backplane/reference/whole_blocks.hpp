#pragma once
// Rows of quantised types are whole blocks.

#include <cstdint>
#include <string>

#include "backplane/dtype.hpp"
#include "backplane/status.hpp"

namespace bp::reference {

// Whether a row of a known type can have so many elements.
[[nodiscard]] inline Status check_whole_blocks(bp_dtype dtype, uint64_t n_elements) {
  const DtypeInfo& info = dtype_info(dtype);
  if (n_elements % info.block_elements == 0) return {};
  return invalid_argument("a row of " + std::to_string(n_elements) +
                          " values is not a multiple of " + std::to_string(info.block_elements) +
                          ", the block of " + std::string(info.name));
}

}  // namespace bp::reference
