#include "backends/cuda/device/device_error.hpp"

#include <algorithm>

namespace bp::cuda {

namespace {

// After these every call of the process on the device fails.
constexpr std::string_view kLost[] = {
    "cudaErrorIllegalAddress",
    "cudaErrorLaunchFailure",
    "cudaErrorLaunchTimeout",
    "cudaErrorHardwareStackError",
    "cudaErrorIllegalInstruction",
    "cudaErrorMisalignedAddress",
    "cudaErrorInvalidAddressSpace",
    "cudaErrorInvalidPc",
    "cudaErrorAssert",
    "cudaErrorTensorMemoryLeak",
    "cudaErrorECCUncorrectable",
    "cudaErrorNvlinkUncorrectable",
    "cudaErrorContained",
    "cudaErrorExternalDevice",
    "cudaErrorMpsClientTerminated",
    "cudaErrorMpsRpcFailure",
    "cudaErrorDevicesUnavailable",
    "cudaErrorContextIsDestroyed",
    "cudaErrorCudartUnloading",
    "cudaErrorUnknown",
};

}  // namespace

Status device_error(const std::string& call, std::string_view name, std::string_view description) {
  std::string message = call + " failed: ";
  message.append(description).append(" (").append(name).append(")");
  if (name == "cudaErrorMemoryAllocation") return out_of_memory(std::move(message));
  const bool is_lost = std::ranges::find(kLost, name) != std::end(kLost);
  return {is_lost ? Code::kDeviceLost : Code::kInternal, std::move(message)};
}

Status library_error(const std::string& call, std::string_view name, const Status& of_device) {
  std::string message = call + " failed: ";
  message.append(name);
  if (name == "CUBLAS_STATUS_NOT_SUPPORTED") return unsupported(std::move(message));
  if (of_device.code() == Code::kDeviceLost) {
    return {Code::kDeviceLost, message + "; " + of_device.message()};
  }
  const bool has_no_memory = name == "CUBLAS_STATUS_ALLOC_FAILED";
  return {has_no_memory ? Code::kOutOfMemory : Code::kInternal, std::move(message)};
}

}  // namespace bp::cuda
