#pragma once
// The backend: its configuration, what it can compile, and the weights its executables share.

#include <memory>

#include "backends/cpu/cpu_features.hpp"
#include "backends/cpu/weights/weight_store.hpp"
#include "backplane/backend.hpp"

namespace bp::cpu {

struct Settings {
  Isa isa = Isa::kScalar;
  Prepare prepare = Prepare::kRepack;
};

class CpuBackend : public Backend {
 public:
  static Result<std::unique_ptr<Backend>> create(const Host& host, const Params& params);
  CpuBackend(const Host& host, const Settings& settings);

  void check(const bp_program& program, CheckReport& report) override;
  Result<std::unique_ptr<Executable>> compile(const bp_program& program,
                                              const bp_compile_options& options) override;

 private:
  Host host_;
  Settings settings_;
  WeightStore weights_;
};

}  // namespace bp::cpu
