#pragma once
// Tokens from rows of logits ("bp.device-sampling/1"), in three launches: slices of rows are looked
// over, weighed or searched for their best, then brought together row by row.

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/kernels/views.hpp"
#include "backplane/ext/device_sampling.h"

namespace bp::cuda {

inline constexpr uint32_t kMaxCandidates = 256;
inline constexpr uint32_t kSliceColumns = 4096;
inline constexpr uint32_t kSampleThreads = 256;
// A thread for each slice, and for each candidate.
inline constexpr uint32_t kMaxSlices = kSampleThreads;
static_assert(kMaxCandidates <= kSampleThreads && kSliceColumns % kSampleThreads == 0);

// What a slice of a row is like.
struct SliceSurvey {
  float greatest;  // -inf where all logits are
  uint32_t id;     // the lowest with it
  float sum;       // of e^(logit - greatest); 0 where all are -inf
  uint32_t flags;  // BP_ROW_NO_NUMBERS
};

struct SampleParams {
  struct Output {
    Rows rows;
    uint32_t width = 0;
    uint32_t has_all_tokens = 0;  // row r is that of token output_rows[r]
  };
  Output outputs[kMaxOutputs];  // of the program
  const StepView* step = nullptr;
  uint32_t n_rows = 0;               // at least the step's n_samples
  uint32_t n_slices = 0;             // of the widest output
  SliceSurvey* surveys = nullptr;    // [n_rows, n_slices]
  double* masses = nullptr;          // [n_rows, n_slices] weights of a draw without top_k
  uint64_t* best = nullptr;          // [n_rows, n_slices, kMaxCandidates] keys of candidates, or 0
  bp_row_result* results = nullptr;  // [n_rows]
  bp_candidate* candidates = nullptr;  // from each request's first_candidate on
};

[[nodiscard]] inline Geometry survey_geometry(const SampleParams& p) {
  return {{p.n_rows, p.n_slices, 1}, kSampleThreads, 0};
}
[[nodiscard]] inline Geometry choose_geometry(const SampleParams& p) {
  return {{p.n_rows, 1, 1}, kSampleThreads, 0};
}
[[nodiscard]] Kernel<SampleParams> survey_kernel();
[[nodiscard]] Kernel<SampleParams> weigh_kernel();  // geometry as the survey's
[[nodiscard]] Kernel<SampleParams> choose_kernel();

}  // namespace bp::cuda
