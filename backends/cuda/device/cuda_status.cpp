#include "backends/cuda/device/cuda_status.hpp"

namespace bp::cuda {

namespace {

// After these every call of the process on the device fails.
bool is_device_lost(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorDevicesUnavailable:
    case cudaErrorContextIsDestroyed:
    case cudaErrorCudartUnloading:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

}  // namespace

Status cuda_status(cudaError_t error, const std::string& call) {
  if (error == cudaSuccess) return {};
  // A failed call must not be reported again by a later one.
  static_cast<void>(cudaGetLastError());
  const std::string message =
      call + " failed: " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")";
  if (error == cudaErrorMemoryAllocation) return out_of_memory(message);
  if (is_device_lost(error)) return {Code::kDeviceLost, message};
  return internal_error(message);
}

}  // namespace bp::cuda
