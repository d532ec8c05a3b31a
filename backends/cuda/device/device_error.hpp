#pragma once
// What errors of the CUDA runtime and of cuBLASLt mean to the host, by the names that these give
// them: plain C++, the same for every version of the toolkit.

#include <string>
#include <string_view>

#include "backplane/status.hpp"

namespace bp::cuda {

// "kernel map failed: an illegal memory access was encountered (cudaErrorIllegalAddress)": out of
// memory, a lost device (its context is of no use any more), or an internal error.
[[nodiscard]] Status device_error(const std::string& call, std::string_view name,
                                  std::string_view description);

// Of a library's call. of_device is what the device says right after: where that is lost, it is why
// the call failed.
[[nodiscard]] Status library_error(const std::string& call, std::string_view name,
                                   const Status& of_device);

}  // namespace bp::cuda
