#pragma once
// Rows of any element type to float32: the definition of every dtype, and the oracle of all
// kernels.

#include <cstdint>

#include "backplane/dtype.h"
#include "backplane/status.hpp"

namespace bp::reference {

// n_blocks blocks of one dtype to n_blocks * block_elements floats. Blocks need no alignment.
using BlockDecoder = void (*)(const uint8_t* blocks, uint64_t n_blocks, float* out);

// The decoder of a dtype, or nullptr for an unknown one.
[[nodiscard]] BlockDecoder block_decoder(bp_dtype dtype);

// Decodes n_elements values, a multiple of the block's, from `blocks` (row_bytes(dtype, n_elements)
// bytes) to `out` [n_elements].
Status decode_row(bp_dtype dtype, const void* blocks, uint64_t n_elements, float* out);

}  // namespace bp::reference
