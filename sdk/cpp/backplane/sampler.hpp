#pragma once
// Samplers in C++: derive a Stage for each named stage, list them in a constexpr array of
// StageEntry, and register bp::sampler_factory<kStages>() with BP_PLUGIN.

#include <array>
#include <memory>
#include <span>

#include "backplane/plugin.hpp"
#include "backplane/sampler.h"

namespace bp {

// Whether a stage left alone what points to its row and bounds it: `given` became `row`.
[[nodiscard]] inline bool keeps_rooms(const bp_sample_row& given, const bp_sample_row& row) {
  return row.n_vocab == given.n_vocab && row.candidates == given.candidates &&
         (row.logits == given.logits || row.logits == nullptr) && row.allowed == given.allowed;
}

// The state of one stage for one sequence.
class Stage {
 public:
  virtual ~Stage() = default;
  [[nodiscard]] virtual std::unique_ptr<Stage> clone() const = 0;
  virtual void accept(std::span<const int32_t>, uint32_t /*origin*/) {}
  virtual void rollback(uint32_t /*n*/) {}
  virtual Status apply(bp_sample_row& row) = 0;
  // What apply does in the ABI's terms, where it can be said.
  virtual void effect(bp_stage_effect&) const {}
};

struct StageEntry {
  bp_stage_info info;
  // From the request's fields; a null pointer where the stage has nothing to do.
  Result<std::unique_ptr<Stage>> (*make)(const Params& fields, uint32_t n_vocab);
};

namespace detail {

template <const auto& kStages>
struct SamplerAdapter {
  static constexpr size_t kCount = kStages.size();
  static constexpr std::array<bp_stage_info, kCount> kInfos = [] {
    std::array<bp_stage_info, kCount> infos{};
    for (size_t i = 0; i < kCount; ++i) infos[i] = kStages[i].info;
    return infos;
  }();
  static Stage* cpp(bp_stage_state* s) { return reinterpret_cast<Stage*>(s); }

  // The stages keep no common state, so the sampler object is only an address.
  static bp_status create(const bp_host*, const bp_params*, bp_sampler** out, bp_error* error) {
    return guarded(error, [&]() -> Status {
      *out = reinterpret_cast<bp_sampler*>(new char);
      return {};
    });
  }
  static void destroy(bp_sampler* sampler) { delete reinterpret_cast<char*>(sampler); }

  static bp_status state_create(bp_sampler*, uint32_t stage, const bp_params* fields,
                                uint32_t n_vocab, bp_stage_state** out, bp_error* error) {
    return guarded(error, [&]() -> Status {
      if (stage >= kCount) return invalid_argument("no stage has index " + std::to_string(stage));
      BP_ASSIGN(std::unique_ptr<Stage> made, kStages[stage].make(Params(fields), n_vocab));
      *out = reinterpret_cast<bp_stage_state*>(made.release());
      return {};
    });
  }
  static bp_status state_clone(const bp_stage_state* state, bp_stage_state** out, bp_error* error) {
    return guarded(error, [&]() -> Status {
      *out = reinterpret_cast<bp_stage_state*>(
          reinterpret_cast<const Stage*>(state)->clone().release());
      return {};
    });
  }
  static void state_destroy(bp_stage_state* state) { delete cpp(state); }
  static bp_status accept(bp_stage_state* state, const int32_t* tokens, uint32_t n, uint32_t origin,
                          bp_error* error) {
    return guarded(error, [&]() -> Status {
      cpp(state)->accept({tokens, n}, origin);
      return {};
    });
  }
  static bp_status rollback(bp_stage_state* state, uint32_t n, bp_error* error) {
    return guarded(error, [&]() -> Status {
      cpp(state)->rollback(n);
      return {};
    });
  }
  static bp_status apply(bp_stage_state* state, bp_sample_row* row, bp_error* error) {
    bp_sample_row mine = copy_growable(row);
    const bp_status status = guarded(error, [&] { return cpp(state)->apply(mine); });
    fill_growable(row, mine);
    return status;
  }
  static void effect(const bp_stage_state* state, bp_stage_effect* out) {
    bp_stage_effect mine = copy_growable(out);
    bp_error ignored{};
    const bp_status status = guarded(&ignored, [&]() -> Status {
      reinterpret_cast<const Stage*>(state)->effect(mine);
      return {};
    });
    if (status == BP_OK) fill_growable(out, mine);
  }
};

}  // namespace detail

template <const auto& kStages>
[[nodiscard]] constexpr bp_sampler_factory sampler_factory() {
  using A = detail::SamplerAdapter<kStages>;
  return {sizeof(bp_sampler_factory),
          static_cast<uint32_t>(A::kCount),
          A::kInfos.data(),
          A::create,
          A::destroy,
          A::state_create,
          A::state_clone,
          A::state_destroy,
          A::accept,
          A::rollback,
          A::apply,
          A::effect};
}

}  // namespace bp
