#pragma once
// The backend: its configuration, what it can compile, and the weights its executables share.

#include <memory>

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/executable.hpp"
#include "backends/cuda/weights/weight_store.hpp"
#include "backplane/backend.hpp"

namespace bp::cuda {

class CudaBackend : public Backend {
 public:
  static Result<std::unique_ptr<Backend>> create(const Host& host, const Params& params);
  CudaBackend(const Host& host, std::shared_ptr<Device> device, const Settings& settings);

  [[nodiscard]] bool transfers_kv() const override { return true; }
  [[nodiscard]] uint32_t max_candidates() const override { return kMaxCandidates; }
  [[nodiscard]] bool takes_chosen() const override { return true; }
  void check(const bp_program& program, CheckReport& report) override;
  Result<std::unique_ptr<Executable>> compile(const bp_program& program,
                                              const bp_compile_options& options) override;

 private:
  Host host_;
  std::shared_ptr<Device> device_;
  Settings settings_;
  WeightStore weights_;  // before the device in destruction
};

}  // namespace bp::cuda
