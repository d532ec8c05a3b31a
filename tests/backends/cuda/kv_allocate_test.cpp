// KV memory and states where memory is short.

#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "sdk/conformance/support/program_builder.hpp"
#include "tests/backends/cuda/failing_device.hpp"
#include "tests/backends/cuda/small_session.hpp"

namespace bp::cuda {
namespace {

using namespace conformance;

// The host asks for less, or for the same again.
TEST(KvAllocate, MayBeCalledAgainWhereMemoryWasShort) {
  constexpr uint32_t kWidth = 8, kKernel = 4;
  ProgramBuilder program;
  program.add_kv_group();
  bp_attr_short_conv conv{};
  conv.state_slot = program.add_state_slot(uint64_t{kWidth} * (kKernel - 1));
  conv.kernel = kKernel;
  const uint32_t x = program.add_table_rows(kWidth, std::vector<float>(4 * kWidth, 1.0f));
  const uint32_t y = program.add_value(kWidth);
  const uint32_t w = program.add_weight("w", BP_DTYPE_F32, {kWidth, kKernel},
                                        std::vector<float>(kWidth * kKernel, 0.5f));
  program.add_op(BP_OP_SHORT_CONV, {x}, {y}, {w, BP_NONE}, ProgramBuilder::attributes(conv));
  program.add_output(y);
  for (int n = 0; n < 3; ++n) {
    bp_host host = make_growable<bp_host>();
    const auto device = std::make_shared<FailingDevice>();
    CudaBackend backend(Host(&host), device, Settings());
    auto compiled = backend.compile(program.build(), small_options());
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    Executable& executable = **compiled;
    bp_memory_info before = make_growable<bp_memory_info>(), after = before;
    ASSERT_TRUE(executable.memory(before).ok());
    device->faults.refusal = [](const std::string& call) { return out_of_memory(call); };
    device->faults.n_left = n;
    const std::array<uint32_t, 2> counts = {kBlocks, 5};
    const Status status = executable.kv_allocate(counts);
    device->faults.n_left = Faults::kNever;
    EXPECT_EQ(status.code(), n < 2 ? Code::kOutOfMemory : Code::kOk) << n;
    ASSERT_TRUE(executable.memory(after).ok());
    EXPECT_EQ(after.available_bytes == before.available_bytes, n < 2);
    EXPECT_EQ(executable.kv_allocate(counts).ok(), n < 2);
    EXPECT_EQ(executable.kv_allocate(counts).code(), Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace bp::cuda
