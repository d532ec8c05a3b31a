#include "backends/cpu/stages/group_matmul_stage.hpp"

#include <algorithm>

#include "backplane/dtype.hpp"
#include "backplane/reference/decode.hpp"
#include "backplane/reference/routing.hpp"

namespace bp::cpu {

namespace {

constexpr size_t kAlign = 64;
constexpr uint32_t kItems = 64;

size_t aligned(size_t bytes) {
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

std::optional<FloatType> float_type(bp_dtype dtype) {
  if (dtype == BP_DTYPE_F32) return FloatType::kF32;
  if (dtype == BP_DTYPE_F16) return FloatType::kF16;
  if (dtype == BP_DTYPE_BF16) return FloatType::kBF16;
  return std::nullopt;
}

}  // namespace

struct GroupMatmulStage::Chosen {
  const uint32_t* begin_of;  // [n_matrices + 1], into pairs
  const uint32_t* pairs;     // row * n_groups + group
};

GroupMatmulStage::GroupMatmulStage(const GroupMatmulSpec& spec) : spec_(spec) {
  reads = {spec.in};
  if (spec.ids) reads.push_back(*spec.ids);
  writes = {spec.out};
}

size_t GroupMatmulStage::scratch_bytes(const StageLimits& limits) const {
  const size_t n_pairs = size_t{limits.max_rows(spec_.count.rows)} * spec_.n_groups;
  return aligned((n_matrices() + 1) * sizeof(uint32_t)) + aligned(n_pairs * sizeof(uint32_t)) +
         size_t{kStripRows} * spec_.weight.n_columns * sizeof(float);
}

GroupMatmulStage::Chosen GroupMatmulStage::gather(const StepContext& step, uint8_t* scratch) const {
  const uint32_t n_rows = spec_.count.of(step), n_groups = spec_.n_groups;
  auto* begin_of = reinterpret_cast<uint32_t*>(scratch);
  auto* pairs =
      reinterpret_cast<uint32_t*>(scratch + aligned((n_matrices() + 1) * sizeof(uint32_t)));
  const auto matrix_of = [&](uint32_t t, uint32_t g) {
    if (!spec_.ids) return uint64_t{g};
    return reference::matrix_of_id(step.values[*spec_.ids].row(t)[g], n_matrices());
  };
  std::fill_n(begin_of, n_matrices() + 1, 0u);
  for (uint32_t t = 0; t < n_rows; ++t) {
    for (uint32_t g = 0; g < n_groups; ++g) ++begin_of[matrix_of(t, g)];
  }
  for (uint32_t m = 1; m <= n_matrices(); ++m) begin_of[m] += begin_of[m - 1];
  // From behind, so that each entry ends as the begin of its matrix, with pairs in order.
  for (uint32_t t = n_rows; t-- > 0;) {
    for (uint32_t g = n_groups; g-- > 0;) pairs[--begin_of[matrix_of(t, g)]] = t * n_groups + g;
  }
  return {begin_of, pairs};
}

void GroupMatmulStage::run_strip(const StepContext& step, const Chosen& chosen, uint32_t m,
                                 uint32_t first, uint32_t n, float* decoded) const {
  const WeightRows rows = spec_.weight.slice(uint64_t{m} * spec_.n_out + first, n);
  const uint32_t n_columns = rows.n_columns;
  const void* w = rows.data;
  size_t stride = rows.row_stride_bytes;
  const auto type = float_type(rows.dtype);
  if (!type) {
    const reference::BlockDecoder decode = reference::block_decoder(rows.dtype);
    for (uint32_t r = 0; r < n; ++r) {
      decode(rows.row(r), n_columns / dtype_info(rows.dtype).block_elements,
             decoded + size_t{r} * n_columns);
    }
    w = decoded;
    stride = n_columns * sizeof(float);
  }
  const FloatDot dot = step.kernels->float_dot[static_cast<size_t>(type.value_or(FloatType::kF32))];
  for (uint32_t i = chosen.begin_of[m]; i < chosen.begin_of[m + 1]; ++i) {
    const uint32_t t = chosen.pairs[i] / spec_.n_groups, g = chosen.pairs[i] % spec_.n_groups;
    const float* x = step.values[spec_.in].row(t) + (spec_.has_shared_in ? 0 : g * n_columns);
    float* y = step.values[spec_.out].row(t) + size_t{g} * spec_.n_out + first;
    dot(w, stride, n, x, n_columns, 1, n_columns, y, n);
    if (spec_.bias == nullptr) continue;
    const float* bias = spec_.bias + size_t{m} * spec_.n_out + first;
    for (uint32_t r = 0; r < n; ++r) y[r] += bias[r];
  }
}

uint32_t GroupMatmulStage::n_items(const StepContext& step) const {
  const uint64_t n_pairs = uint64_t{spec_.count.of(step)} * spec_.n_groups;
  return static_cast<uint32_t>(std::min<uint64_t>(kItems, n_pairs * n_strips()));
}

PhaseItems GroupMatmulStage::items(const StepContext& step, uint32_t phase) const {
  return {phase == 0 ? n_items(step) : 0};
}

void GroupMatmulStage::run(const StepContext& step, const Worker& worker, uint32_t,
                           Items& items) const {
  Chosen chosen{};
  uint32_t n_used = 0;
  float* decoded = nullptr;
  for (uint32_t i; (i = items.next()) != WorkShares::kNone;) {
    if (decoded == nullptr) {
      const size_t n_pairs = size_t{spec_.count.of(step)} * spec_.n_groups;
      chosen = gather(step, worker.scratch);
      decoded =
          reinterpret_cast<float*>(worker.scratch + aligned((n_matrices() + 1) * sizeof(uint32_t)) +
                                   aligned(n_pairs * sizeof(uint32_t)));
      for (uint32_t m = 0; m < n_matrices(); ++m) {
        n_used += chosen.begin_of[m] < chosen.begin_of[m + 1] ? 1 : 0;
      }
    }
    run_strips(step, chosen, part_of(i, n_items(step), n_used * n_strips()), decoded);
  }
}

void GroupMatmulStage::run_strips(const StepContext& step, const Chosen& chosen, Range own,
                                  float* decoded) const {
  uint32_t strip = 0;
  for (uint32_t m = 0; m < n_matrices() && strip < own.end; ++m) {
    if (chosen.begin_of[m] == chosen.begin_of[m + 1]) continue;
    for (uint32_t s = 0; s < n_strips(); ++s, ++strip) {
      if (strip < own.begin || strip >= own.end) continue;
      const uint32_t first = s * kStripRows;
      run_strip(step, chosen, m, first, std::min(kStripRows, spec_.n_out - first), decoded);
    }
  }
}

}  // namespace bp::cpu
