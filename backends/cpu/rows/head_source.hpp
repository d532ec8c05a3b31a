#pragma once
// Heads of queries or keys that attention reads: a value, each head perhaps normalised and rotated.

#include <cstdint>
#include <optional>

#include "backends/cpu/rows/normalization.hpp"
#include "backends/cpu/stages/stage.hpp"

namespace bp::cpu {

struct Rotation {
  uint32_t table = 0;    // buffer: of each token n_dims/2 cosines, then as many sines
  uint32_t pairing = 0;  // BP_ROPE_*
  uint32_t n_dims = 0;
};

struct HeadSource {
  uint32_t buffer = 0;
  uint32_t head_dim = 0;
  std::optional<Normalization> norm;
  std::optional<Rotation> rotation;

  [[nodiscard]] bool is_plain() const { return !norm && !rotation; }
  [[nodiscard]] const float* raw(const StepContext& step, uint32_t token, uint32_t head) const {
    return step.values[buffer].row(token) + size_t{head} * head_dim;
  }
  // One head of one token into out [head_dim], which may be where it stands.
  void load(const StepContext& step, uint32_t token, uint32_t head, float* out) const;
};

}  // namespace bp::cpu
