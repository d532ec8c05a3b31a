#include "backends/cpu/stages/group_matmul_stage.hpp"

#include <algorithm>
#include <cstring>

#include "backplane/reference/routing.hpp"

namespace bp::cpu {

struct GroupMatmulStage::Cut {
  uint32_t piece_strips;
  uint32_t n_pieces;  // of a chunk
};

namespace {

ActivationForms forms_of(const Matrices& matrices) {
  ActivationForms forms;
  for (const auto& matrix : matrices) forms.serve(*matrix);
  return forms;
}

}  // namespace

size_t scratch_bytes(const Matrices& matrices, const Kernels& kernels) {
  size_t most = 0;
  for (const auto& matrix : matrices) most = std::max(most, matrix->scratch_bytes(kernels));
  return most;
}

GroupMatmulStage::GroupMatmulStage(GroupMatmulSpec spec)
    : spec_(std::move(spec)),
      layout_(forms_of(spec_.matrices), spec_.n_in),
      chunk_(spec_.n_in, layout_.forms()) {
  reads = {spec_.in};
  if (spec_.ids) reads.push_back(*spec_.ids);
  writes = {spec_.out};
}

size_t GroupMatmulStage::scratch_bytes(const StageLimits& limits) const {
  const uint32_t n = chunk_.rows(*limits.kernels);
  return n * (layout_.row_bytes(*limits.kernels) + kPieceColumns * sizeof(float)) +
         cpu::scratch_bytes(spec_.matrices, *limits.kernels);
}

size_t GroupMatmulStage::shared_bytes(const StageLimits& limits) const {
  return RowsByMatrix::bytes(n_matrices(), limits.max_rows(spec_.count) * spec_.n_groups,
                             chunk_.rows(*limits.kernels));
}

RowsByMatrix GroupMatmulStage::rows(const StepContext& step) const {
  return {step.shared, n_matrices(), n_pairs(step)};
}

void GroupMatmulStage::begin(const StepContext& step, uint32_t phase) const {
  if (phase != 0) return;
  rows(step).sort(chunk_.rows(*step.kernels), [&](uint32_t pair) {
    const uint32_t t = pair / spec_.n_groups, g = pair % spec_.n_groups;
    if (!spec_.ids) return uint64_t{g};
    return reference::matrix_of_id(step.values[*spec_.ids].row(t)[g], n_matrices());
  });
}

GroupMatmulStage::Cut GroupMatmulStage::cut(const StepContext& step) const {
  const uint32_t n_strips = spec_.matrices[0]->n_strips();
  const uint32_t strips = piece_strips(rows(step).n_chunks() * n_strips, step.n_workers);
  return {strips, (n_strips + strips - 1) / strips};
}

PhaseItems GroupMatmulStage::items(const StepContext& step, uint32_t phase) const {
  return {phase == 0 ? rows(step).n_chunks() * cut(step).n_pieces : 0};
}

void GroupMatmulStage::run(const StepContext& step, const Worker& worker, uint32_t,
                           Items& items) const {
  uint32_t item = items.next();
  if (item == WorkShares::kNone) return;
  const Kernels& kernels = *step.kernels;
  const RowsByMatrix all = rows(step);
  const Cut pieces = cut(step);
  const uint32_t n_rows = chunk_.rows(kernels);
  uint8_t* gathered = worker.scratch;
  auto* products = reinterpret_cast<float*>(gathered + n_rows * layout_.row_bytes(kernels));
  auto* weight = reinterpret_cast<uint8_t*>(products + size_t{n_rows} * kPieceColumns);
  Activations x;
  for (uint32_t last = ~0u; item != WorkShares::kNone; item = items.next()) {
    const uint32_t c = item / pieces.n_pieces, p = item % pieces.n_pieces;
    const RowChunk& chunk = all.chunk(c);
    if (c != last) x = gather(step, all, chunk, gathered);
    last = c;
    const PreparedWeight& matrix = *spec_.matrices[chunk.matrix];
    const Range strips{p * pieces.piece_strips,
                       std::min((p + 1) * pieces.piece_strips, matrix.n_strips())};
    dot_strips(kernels, matrix, strips, x, 0, chunk.n, products, weight);
    store(step, all, chunk, strips, products);
  }
}

Activations GroupMatmulStage::gather(const StepContext& step, const RowsByMatrix& rows,
                                     const RowChunk& chunk, uint8_t* memory) const {
  const Activations x = layout_.place(*step.kernels, chunk.n, memory);
  const auto row = [&](uint32_t i) -> const float* {
    const uint32_t pair = rows.pair(chunk.first + i);
    const float* in = step.values[spec_.in].row(pair / spec_.n_groups);
    return spec_.has_shared_in ? in : in + size_t{pair % spec_.n_groups} * spec_.n_in;
  };
  layout_.fill(*step.kernels, x, 0, chunk.n, row, [](uint32_t) { return nullptr; });
  return x;
}

void GroupMatmulStage::store(const StepContext& step, const RowsByMatrix& rows,
                             const RowChunk& chunk, Range strips, const float* products) const {
  const uint32_t first = strips.begin * kStripRows;
  const uint32_t n = std::min(strips.end * kStripRows, spec_.n_out) - first;
  for (uint32_t i = 0; i < chunk.n; ++i) {
    const uint32_t pair = rows.pair(chunk.first + i);
    const float* product = products + size_t{i} * kPieceColumns;
    float* y = step.values[spec_.out].row(pair / spec_.n_groups) +
               size_t{pair % spec_.n_groups} * spec_.n_out + first;
    if (spec_.bias == nullptr) {
      std::memcpy(y, product, n * sizeof(float));
    } else {
      step.kernels->add(product, spec_.bias + size_t{chunk.matrix} * spec_.n_out + first, y, n);
    }
  }
}

}  // namespace bp::cpu
