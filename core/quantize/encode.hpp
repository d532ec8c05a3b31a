#pragma once
// Float32 rows to the element types of model files: each block gets the scales and quants that
// leave the least weighted square error, as far as a short search finds them.

#include <cstdint>

#include "backplane/dtype.h"
#include "backplane/status.hpp"

namespace bp::quantize {

// in [block_elements] to one block. weights [block_elements]: what the square of each element's
// error counts, all above 0.
using BlockEncoder = void (*)(const float* in, const float* weights, uint8_t* block);

// nullptr for a type that nothing encodes.
[[nodiscard]] BlockEncoder block_encoder(bp_dtype dtype);

// Encodes `in` [n_elements] to row_bytes(dtype, n_elements) bytes at `blocks`. importance
// [n_elements], at least 0, or nullptr where all elements count the same. The result depends on
// nothing else. Values that are no finite numbers, or beyond 1e16, are kInvalidArgument for
// types of blocks.
Status encode_row(bp_dtype dtype, const float* in, const float* importance, uint64_t n_elements,
                  void* blocks);

}  // namespace bp::quantize
