#pragma once
// Float32 rows to the element types whose encoding is plain rounding: f32, f16, bf16, f8_e4m3,
// f8_e5m2, q4_0, q4_1, q5_0, q5_1, q8_0.

#include <cstdint>

#include "backplane/dtype.h"
#include "backplane/status.hpp"

namespace bp::reference {

// Encodes `in` [n_elements] to row_bytes(dtype, n_elements) bytes at `blocks`. Other dtypes are
// kUnsupported.
Status encode_row(bp_dtype dtype, const float* in, uint64_t n_elements, void* blocks);

}  // namespace bp::reference
