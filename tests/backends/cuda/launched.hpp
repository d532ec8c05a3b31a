#pragma once
// The names of the kernels that a step launches and whether they may overlap, by a stream that does
// nothing else.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/cuda/device/launches_only.hpp"
#include "backends/cuda/plan/planner.hpp"

namespace bp::cuda {

class NamingStream : public LaunchesOnly {
 public:
  using LaunchesOnly::launch;
  Status launch(const Launch& launch) override {
    names.emplace_back(launch.name);
    may_all_overlap = may_all_overlap && launches_may_overlap();
    return {};
  }

  std::vector<std::string> names;
  bool may_all_overlap = true;
};

// Of a step that decodes n sequences, or runs a prompt of n tokens.
inline NamingStream launches_of(const bp_program& built, uint32_t n, bp_dtype k = BP_DTYPE_F16,
                                bp_dtype v = BP_DTYPE_F16) {
  const ProgramView program(built);
  WeightStore store;
  DeviceInfo device;
  device.n_multiprocessors = 132;
  device.shared_bytes_per_block = 99 << 10;
  StepShape shape;
  shape.n_tokens = shape.n_seqs = n;
  shape.n_output_rows.fill(n);
  shape.longest_context = 40;
  auto planned = Planner(program, store, device, shape).run();
  EXPECT_TRUE(planned.ok()) << planned.status().message();
  if (!planned.ok()) return {};
  const Plan plan = std::move(planned).value();
  NamingStream stream;
  const KvCache kv(program.kv_slots(), program.header().n_kv_groups, 16, k, v);
  const StateCache states({});
  const StageContext context{stream, nullptr, plan.buffers, nullptr, nullptr, kv, states, shape};
  EXPECT_TRUE(plan.enqueue(context).ok());
  return stream;
}
inline std::vector<std::string> launched(const bp_program& built, uint32_t n,
                                         bp_dtype k = BP_DTYPE_F16, bp_dtype v = BP_DTYPE_F16) {
  return launches_of(built, n, k, v).names;
}

}  // namespace bp::cuda
