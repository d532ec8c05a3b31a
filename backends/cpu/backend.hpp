#pragma once
// The backend: its configuration, what it can compile, and the weights its executables share.

#include <memory>
#include <optional>

#include "backends/cpu/cpu_features.hpp"
#include "backends/cpu/kv_cache.hpp"
#include "backends/cpu/weights/choose_preparation.hpp"
#include "backends/cpu/weights/weight_store.hpp"
#include "backplane/backend.hpp"
#include "backplane/ext/memory_plan.h"
#include "backplane/program_view.hpp"

namespace bp::cpu {

struct Settings {
  Isa isa = Isa::kScalar;
  std::optional<Prepare> prepare;  // unset: by the memory there is
};

class CpuBackend : public Backend {
 public:
  static Result<std::unique_ptr<Backend>> create(const Host& host, const Params& params);
  CpuBackend(const Host& host, const Settings& settings);

  [[nodiscard]] uint64_t compile_features() const override { return BP_COMPILE_OVERRIDES; }
  [[nodiscard]] bool transfers_kv() const override { return true; }
  void check(const bp_program& program, CheckReport& report) override;
  Result<std::unique_ptr<Executable>> compile(const bp_program& program,
                                              const bp_compile_options& options) override;
  const void* get_extension(std::string_view id) override;

  // memory_plan.cpp
  Status plan_memory(const bp_program& program, const bp_compile_options& options,
                     bp_memory_plan& out);

 private:
  [[nodiscard]] Result<KvCache> make_kv(const ProgramView& program,
                                        const bp_compile_options& options) const;
  [[nodiscard]] Result<MemoryNeeds> memory_needs(const ProgramView& program,
                                                 const bp_compile_options& options) const;

  Host host_;
  Settings settings_;
  WeightStore weights_;
};

}  // namespace bp::cpu
