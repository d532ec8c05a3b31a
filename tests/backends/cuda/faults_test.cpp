// What a step says where the device fails: the call, the op where it is known, and whether the
// device is lost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <set>

#include "tests/backends/cuda/failing_device.hpp"
#include "tests/backends/cuda/small_session.hpp"

namespace bp::cuda {
namespace {

using namespace conformance;
using ::testing::HasSubstr;

TEST(DeviceErrors, LostDevicesAreToldByName) {
  for (const char* name :
       {"cudaErrorIllegalAddress", "cudaErrorLaunchFailure", "cudaErrorLaunchTimeout",
        "cudaErrorHardwareStackError", "cudaErrorIllegalInstruction", "cudaErrorMisalignedAddress",
        "cudaErrorInvalidAddressSpace", "cudaErrorInvalidPc", "cudaErrorAssert",
        "cudaErrorTensorMemoryLeak", "cudaErrorECCUncorrectable", "cudaErrorNvlinkUncorrectable",
        "cudaErrorContained", "cudaErrorExternalDevice", "cudaErrorMpsClientTerminated"}) {
    EXPECT_EQ(device_error("cudaFree", name, "gone").code(), Code::kDeviceLost) << name;
  }
  for (const char* name : {"cudaErrorInvalidValue", "cudaErrorInvalidConfiguration",
                           "cudaErrorNoKernelImageForDevice", "cudaErrorLaunchOutOfResources"}) {
    EXPECT_EQ(device_error("cudaFree", name, "no").code(), Code::kInternal) << name;
  }
  const Status memory = device_error("cudaMalloc", "cudaErrorMemoryAllocation", "out of memory");
  EXPECT_EQ(memory.code(), Code::kOutOfMemory);
  EXPECT_EQ(memory.message(), "cudaMalloc failed: out of memory (cudaErrorMemoryAllocation)");
}

TEST(DeviceErrors, ALibraryFailsWithItsDevice) {
  const Status lost = device_error("work before it", "cudaErrorIllegalAddress", "illegal access");
  const std::string failed = "CUBLAS_STATUS_EXECUTION_FAILED";
  const Status status = library_error("cublasLtMatmul", failed, lost);
  EXPECT_EQ(status.code(), Code::kDeviceLost);
  EXPECT_EQ(status.message(),
            "cublasLtMatmul failed: CUBLAS_STATUS_EXECUTION_FAILED; work before it failed: illegal "
            "access (cudaErrorIllegalAddress)");
  EXPECT_EQ(library_error("cublasLtMatmul", failed, Status()).code(), Code::kInternal);
  EXPECT_EQ(library_error("cublasLtCreate", "CUBLAS_STATUS_ALLOC_FAILED", Status()).code(),
            Code::kOutOfMemory);
  EXPECT_EQ(library_error("cublasLtMatmul", "CUBLAS_STATUS_NOT_SUPPORTED", Status()).code(),
            Code::kUnsupported);
}

TEST(DeviceErrors, MemorySaysWhatIsFree) {
  DeviceInfo info;
  info.name = "a card";
  info.total_bytes = uint64_t{24} << 30;
  EXPECT_EQ(
      does_not_fit(info, MemoryKind::kDevice, 5 << 20, uint64_t{3} << 30, "the weights").message(),
      "5.00 MiB for the weights are needed, 3.00 GiB of 24.00 GiB are free on a card");
  EXPECT_EQ(
      does_not_fit(info, MemoryKind::kPinned, 5 << 20, 1 << 20, "the outputs of a step").message(),
      "5.00 MiB for the outputs of a step are needed as pinned host memory, 1.00 MiB are free on "
      "the host");
  const Status graph =
      device_error("cudaGraphInstantiate", "cudaErrorMemoryAllocation", "out of memory");
  EXPECT_EQ(with_free_bytes(graph, info, 1 << 20).message(),
            graph.message() + ", 1.00 MiB of 24.00 GiB are free on a card");
  const Status other = internal_error("something else");
  EXPECT_EQ(with_free_bytes(other, info, 0).message(), "something else");
}

Status lost(const std::string& call) {
  return device_error(call, "cudaErrorLaunchFailure", "unspecified launch failure");
}

class DeviceFaults : public testing::Test {
 protected:
  Status start(const Settings& settings, bp_dtype weights = BP_DTYPE_F32) {
    llama_ = std::make_unique<TinyLlama>(weights);
    backend_ = std::make_unique<CudaBackend>(Host(&host_), device_, settings);
    bp_compile_options options = small_options();
    options.max_step_tokens = 80;
    BP_ASSIGN(executable_, backend_->compile(llama_->program(), options));
    device_->faults.refusal = lost;
    BP_TRY(executable_->kv_allocate(std::array{kBlocks}));
    return executable_->warm_up(Progress(nullptr));
  }
  static Settings with_graphs(bool uses_graphs) {
    Settings settings;
    settings.uses_graphs = uses_graphs;
    return settings;
  }
  Status submit(BatchBuilder& batch) { return executable_->submit(batch.build(), ticket_); }

  bp_host host_ = make_growable<bp_host>();
  std::shared_ptr<FailingDevice> device_ = std::make_shared<FailingDevice>();
  Faults& faults_ = device_->faults;
  std::unique_ptr<TinyLlama> llama_;
  std::unique_ptr<CudaBackend> backend_;
  std::unique_ptr<Executable> executable_;
  uint64_t ticket_ = 0;
};

TEST_F(DeviceFaults, EveryRefusedCallIsNamed) {
  ASSERT_TRUE(start(with_graphs(false)).ok());
  std::set<std::string> kinds;
  int n_named = 0;
  for (int n = 0;; ++n) {
    BatchBuilder batch = decodes(2);
    batch.add_block_op({BP_BLOCK_COPY, BP_BLOCK_OF_GROUP, 0, 3, 5});
    faults_.n_left = n;
    const Status status = submit(batch);
    faults_.n_left = Faults::kNever;
    if (status.ok()) break;
    EXPECT_EQ(status.code(), Code::kDeviceLost);
    EXPECT_THAT(status.message(), HasSubstr(faults_.refused + " failed"));
    if (status.message().find("op \"") != std::string::npos) ++n_named;
    kinds.insert(faults_.refused.substr(0, faults_.refused.find(' ')));
    if (faults_.refused == "copy to the device") {
      EXPECT_THAT(status.message(), HasSubstr("the batch: "));
    } else if (faults_.refused == "copy to the host") {
      EXPECT_THAT(status.message(), HasSubstr("the outputs: "));
    }
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"copy", "kernel", "record"}));
  EXPECT_GT(n_named, 15);
}

TEST_F(DeviceFaults, AProductOfTheLibraryIsNamedWithItsOp) {
  ASSERT_TRUE(start(with_graphs(true), BP_DTYPE_BF16).ok());
  std::set<std::string> refused;
  for (int n = 0;; ++n) {
    BatchBuilder batch;
    batch.add_sequence(std::vector<int32_t>(70, 4), 0, {1, 2, 3, 4, 5});
    faults_.n_left = n;
    const Status status = submit(batch);
    faults_.n_left = Faults::kNever;
    if (status.ok()) break;
    refused.insert(faults_.refused);
    if (faults_.refused != "product") continue;
    EXPECT_EQ(status.code(), Code::kDeviceLost);
    EXPECT_THAT(status.message(), HasSubstr("op \""));
  }
  EXPECT_EQ(refused.count("product"), 1u);
}

TEST_F(DeviceFaults, WorkThatFailsIsSeenByCollect) {
  ASSERT_TRUE(start(with_graphs(false)).ok());
  BatchBuilder first = prompts(2), second = decodes(2);
  faults_.of_work = lost("work");
  ASSERT_TRUE(submit(first).ok());
  const Status status = executable_->collect(ticket_);
  EXPECT_EQ(status.code(), Code::kDeviceLost);
  EXPECT_THAT(status.message(), HasSubstr("step 1: work failed: unspecified launch failure"));
  EXPECT_THAT(status.message(), HasSubstr("`synchronous: true` names it"));
  EXPECT_LT(status.message().size(), sizeof(bp_error::message));
  EXPECT_EQ(submit(second).code(), Code::kDeviceLost);
  executable_.reset();

  device_ = std::make_shared<FailingDevice>();
  CudaBackend other(Host(&host_), device_, Settings());
  auto again = other.compile(llama_->program(), small_options());
  ASSERT_TRUE(again.ok());
  ASSERT_TRUE((*again)->kv_allocate(std::array{kBlocks}).ok());
  ASSERT_TRUE((*again)->submit(first.build(), ticket_).ok());
  EXPECT_TRUE((*again)->collect(ticket_).ok());
}

TEST_F(DeviceFaults, SynchronousStepsNameTheOpWhoseWorkFails) {
  Settings settings;
  settings.waits_after_each_op = true;
  ASSERT_TRUE(start(settings).ok());
  BatchBuilder batch = prompts(2);
  faults_.of_work = lost("work");
  const Status status = submit(batch);
  EXPECT_EQ(status.code(), Code::kDeviceLost);
  EXPECT_THAT(status.message(), HasSubstr("op \""));
  EXPECT_THAT(status.message(), HasSubstr("work failed"));
}

TEST_F(DeviceFaults, WarmingUpNamesTheStepAndTheOp) {
  ASSERT_TRUE(start(with_graphs(true)).ok());
  faults_.n_left = 5;
  const Status status = executable_->warm_up(Progress(nullptr));
  faults_.n_left = Faults::kNever;
  EXPECT_EQ(status.code(), Code::kDeviceLost);
  EXPECT_THAT(status.message(), HasSubstr("warming up by a step of 1 tokens: op \""));
  EXPECT_THAT(status.message(), HasSubstr(faults_.refused));
}

TEST_F(DeviceFaults, AGraphThatDoesNotRunIsSaid) {
  ASSERT_TRUE(start(with_graphs(true)).ok());
  BatchBuilder batch = decodes(2);
  faults_.n_left = 1;
  const Status status = submit(batch);
  faults_.n_left = Faults::kNever;
  EXPECT_EQ(status.code(), Code::kDeviceLost);
  EXPECT_THAT(status.message(), HasSubstr("the graph of the ops: graph failed"));
}

}  // namespace
}  // namespace bp::cuda
