#pragma once
// Choosing candidates without sorting more of them than needed.

#include <cstdint>
#include <span>

#include "backplane/sampler.h"

namespace bp::samplers {

// Order of all results: greater logit first, then lower id.
[[nodiscard]] inline bool better(const bp_candidate& a, const bp_candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

[[nodiscard]] inline bool is_dense(const bp_sample_row& row) {
  return row.n_candidates == 0;
}
[[nodiscard]] inline std::span<bp_candidate> candidates(bp_sample_row& row) {
  return {row.candidates, row.n_candidates};
}
[[nodiscard]] float max_logit(const bp_sample_row& row);

// The dense row becomes sparse: ids with a logit of at least `threshold`, ascending, but -inf
// never.
void gather(bp_sample_row& row, float threshold);
// The row, dense or sparse, keeps its k best candidates, best first. k >= 1.
void keep_best(bp_sample_row& row, uint32_t k);
// The sparse row keeps the fewest best candidates whose weights e^(logit - max) reach `mass`, and
// at least one; best first.
void keep_mass(bp_sample_row& row, float max, double mass);

}  // namespace bp::samplers
