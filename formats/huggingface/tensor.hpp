#pragma once
// Entries of the ABI's tensor table.

#include <span>
#include <string>
#include <string_view>

#include "backplane/format.h"
#include "backplane/status.hpp"

namespace bp::huggingface {

// Rows one after another, in no file yet (BP_NO_OFFSET). dims are outermost first, none: a single
// value, and their product with the type's size is known to fit. The name outlives the result.
Result<bp_tensor> describe_tensor(const std::string& path, std::string_view name, bp_dtype dtype,
                                  std::span<const uint64_t> dims);

// Whether the table has the tensor, and that one rows [first, first + n).
Status check_rows(std::span<const bp_tensor> tensors, uint64_t tensor, uint64_t first, uint64_t n);

}  // namespace bp::huggingface
