#pragma once
// The rows of a tensor from one element type to another, on all workers.

#include <cstdint>

#include "backplane/dtype.h"
#include "backplane/ext/threads.h"
#include "backplane/status.hpp"
#include "core/base/work_progress.hpp"

namespace bp::quantize {

struct Rows {
  bp_dtype dtype;
  const void* data;
  uint64_t row_stride_bytes;
  uint64_t n_rows;
  uint64_t width;  // elements of a row
};

// How much the columns count: [n_rows / rows_per_slice, width], or null where all count the same.
struct Importance {
  const float* values = nullptr;
  uint64_t rows_per_slice = 1;
};

// Whether rows of this width can be of this type.
[[nodiscard]] bool fits(bp_dtype dtype, uint64_t width);

// Writes n_rows * row_bytes(to, width) bytes to `out`: the same for any number of threads. threads
// may be null. Rows that are of the type already are copied. progress (may be null) counts
// elements, and may stop it.
Status convert_rows(const Rows& rows, bp_dtype to, const Importance& importance,
                    const bp_threads* threads, void* out, base::WorkProgress* progress = nullptr);

}  // namespace bp::quantize
