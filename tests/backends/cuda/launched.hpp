#pragma once
// The names of the kernels that a step launches, by a stream that does nothing else.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/plan/planner.hpp"

namespace bp::cuda {

class NamingStream : public Stream {
 public:
  using Stream::launch;
  Status launch(const Launch& launch) override {
    names.emplace_back(launch.name);
    return {};
  }
  Status copy_to_device(void*, const void*, size_t) override { return {}; }
  Status copy_to_host(void*, const void*, size_t) override { return {}; }
  Status copy_on_device(void*, const void*, size_t) override { return {}; }
  Status fill(void*, uint8_t, size_t) override { return {}; }
  Status record(Event&) override { return {}; }
  Status wait(Event&) override { return {}; }
  Status synchronize() override { return {}; }
  Status begin_capture() override { return {}; }
  Result<std::unique_ptr<Graph>> end_capture() override { return unsupported("no graphs"); }
  Status run(Graph&) override { return {}; }

  std::vector<std::string> names;
};

// Of a step that decodes n sequences, or runs a prompt of n tokens.
inline std::vector<std::string> launched(const bp_program& built, uint32_t n,
                                         bp_dtype k = BP_DTYPE_F16, bp_dtype v = BP_DTYPE_F16) {
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
  return stream.names;
}

}  // namespace bp::cuda
