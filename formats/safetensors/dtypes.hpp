#pragma once
// The names that safetensors gives to element types.

#include <string_view>

#include "backplane/dtype.h"

namespace bp::safetensors {

// BP_DTYPE_NONE for names that are unknown or that nothing here can hold.
[[nodiscard]] bp_dtype dtype_from_name(std::string_view name);

}  // namespace bp::safetensors
