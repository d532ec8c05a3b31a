#pragma once
// A sampler plugin and the state of one of its stages behind the C ABI.

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "backplane/sampler.h"
#include "backplane/status.hpp"
#include "core/plugin/params.hpp"

namespace bp::plugin {

class SamplerHandle;

// Keeps its sampler alive.
class StageState {
 public:
  StageState(StageState&& other) noexcept;
  StageState& operator=(StageState&&) = delete;
  ~StageState();

  [[nodiscard]] const bp_stage_info& info() const;
  Result<StageState> clone() const;
  Status accept(std::span<const int32_t> tokens, uint32_t origin) const;
  Status rollback(uint32_t n) const;
  Status apply(bp_sample_row& row) const;
  // BP_EFFECT_OTHER where the plugin does not say, or says what cannot be.
  [[nodiscard]] bp_stage_effect effect() const;

 private:
  friend class SamplerHandle;
  StageState(std::shared_ptr<const SamplerHandle> sampler, uint32_t stage, bp_stage_state* state);

  std::shared_ptr<const SamplerHandle> sampler_;
  uint32_t stage_;
  bp_stage_state* state_;
};

class SamplerHandle : public std::enable_shared_from_this<SamplerHandle> {
 public:
  // `host` outlives the handle.
  static Result<std::shared_ptr<const SamplerHandle>> create(const bp_sampler_factory* factory,
                                                             const bp_host* host,
                                                             const ParamMap& config);
  SamplerHandle(const SamplerHandle&) = delete;
  SamplerHandle& operator=(const SamplerHandle&) = delete;
  ~SamplerHandle();

  [[nodiscard]] std::span<const bp_stage_info> stages() const;
  [[nodiscard]] std::optional<uint32_t> find_stage(std::string_view name) const;
  // nullopt where the stage has nothing to do for these fields.
  Result<std::optional<StageState>> make_state(uint32_t stage, const ParamMap& fields,
                                               uint32_t n_vocab) const;

 private:
  friend class StageState;
  SamplerHandle(const bp_sampler_factory& factory, bp_sampler* sampler)
      : factory_(factory), sampler_(sampler) {}

  bp_sampler_factory factory_;
  bp_sampler* sampler_;
};

}  // namespace bp::plugin
