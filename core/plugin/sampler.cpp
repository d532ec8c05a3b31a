#include "core/plugin/sampler.hpp"

#include <limits>

#include "core/plugin/call.hpp"

namespace bp::plugin {

StageState::StageState(std::shared_ptr<const SamplerHandle> sampler, uint32_t stage,
                       bp_stage_state* state)
    : sampler_(std::move(sampler)), stage_(stage), state_(state) {}

StageState::StageState(StageState&& other) noexcept
    : sampler_(std::move(other.sampler_)),
      stage_(other.stage_),
      state_(std::exchange(other.state_, nullptr)) {}

StageState::~StageState() {
  if (state_ != nullptr) sampler_->factory_.state_destroy(state_);
}

const bp_stage_info& StageState::info() const {
  return sampler_->factory_.stages[stage_];
}

Result<StageState> StageState::clone() const {
  bp_stage_state* copy = nullptr;
  BP_TRY(
      call([&](bp_error* error) { return sampler_->factory_.state_clone(state_, &copy, error); }));
  if (copy == nullptr) return internal_error("state_clone succeeded without a state");
  return StageState(sampler_, stage_, copy);
}

Status StageState::accept(std::span<const int32_t> tokens, uint32_t origin) const {
  const auto n = static_cast<uint32_t>(tokens.size());
  return call([&](bp_error* error) {
    return sampler_->factory_.accept(state_, tokens.data(), n, origin, error);
  });
}

Status StageState::rollback(uint32_t n) const {
  return call([&](bp_error* error) { return sampler_->factory_.rollback(state_, n, error); });
}

Status StageState::apply(bp_sample_row& row) const {
  return call([&](bp_error* error) { return sampler_->factory_.apply(state_, &row, error); });
}

namespace {

bool is_possible(const bp_stage_effect& effect) {
  switch (effect.kind) {
    case BP_EFFECT_TOP_K:
      return effect.count > 0;
    case BP_EFFECT_FLOOR:
      return effect.value <= 0;
    case BP_EFFECT_SCALE:
      return effect.value > 0 && effect.value <= std::numeric_limits<float>::max();
    default:
      return false;
  }
}

}  // namespace

bp_stage_effect StageState::effect() const {
  auto effect = make_growable<bp_stage_effect>();
  const auto ask = sampler_->factory_.effect;
  const Status status = call([&](bp_error*) {
    if (ask != nullptr) ask(state_, &effect);
    return BP_OK;
  });
  if (!status.ok() || !is_possible(effect)) effect.kind = BP_EFFECT_OTHER;
  return effect;
}

namespace {

const char* missing_function(const bp_sampler_factory& f) {
  if (f.stages == nullptr || f.n_stages == 0) return "stages";
  if (f.create == nullptr) return "create";
  if (f.destroy == nullptr) return "destroy";
  if (f.state_create == nullptr) return "state_create";
  if (f.state_clone == nullptr) return "state_clone";
  if (f.state_destroy == nullptr) return "state_destroy";
  if (f.accept == nullptr) return "accept";
  if (f.rollback == nullptr) return "rollback";
  if (f.apply == nullptr) return "apply";
  return nullptr;
}

}  // namespace

Result<std::shared_ptr<const SamplerHandle>> SamplerHandle::create(
    const bp_sampler_factory* factory, const bp_host* host, const ParamMap& config) {
  const bp_sampler_factory table = copy_growable(factory);
  if (const char* name = missing_function(table)) {
    return invalid_argument(std::string("the required member bp_sampler_factory.") + name +
                            " is missing");
  }
  const CParams params(config);
  bp_sampler* sampler = nullptr;
  BP_TRY(call([&](bp_error* error) { return table.create(host, params.get(), &sampler, error); }));
  if (sampler == nullptr) return internal_error("create succeeded without a sampler");
  return std::shared_ptr<const SamplerHandle>(new SamplerHandle(table, sampler));
}

SamplerHandle::~SamplerHandle() {
  factory_.destroy(sampler_);
}

std::span<const bp_stage_info> SamplerHandle::stages() const {
  return {factory_.stages, factory_.n_stages};
}

std::optional<uint32_t> SamplerHandle::find_stage(std::string_view name) const {
  for (uint32_t i = 0; i < factory_.n_stages; ++i) {
    if (factory_.stages[i].name == name) return i;
  }
  return std::nullopt;
}

Result<std::optional<StageState>> SamplerHandle::make_state(uint32_t stage, const ParamMap& fields,
                                                            uint32_t n_vocab) const {
  const CParams params(fields);
  bp_stage_state* state = nullptr;
  BP_TRY(call([&](bp_error* error) {
    return factory_.state_create(sampler_, stage, params.get(), n_vocab, &state, error);
  }));
  std::optional<StageState> made;
  if (state != nullptr) made.emplace(StageState(shared_from_this(), stage, state));
  return Result<std::optional<StageState>>(std::move(made));
}

}  // namespace bp::plugin
