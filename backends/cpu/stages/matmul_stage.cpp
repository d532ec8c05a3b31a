#include "backends/cpu/stages/matmul_stage.hpp"

#include <algorithm>
#include <cstring>

#include "backends/cpu/round_up.hpp"
#include "backends/cpu/rows/row_peaks.hpp"

namespace bp::cpu {

namespace {

ActivationForms forms_of(const MatmulSpec& spec) {
  ActivationForms forms;
  for (const Projection& p : spec.projections) forms.serve(*p.weight);
  return forms;
}

}  // namespace

struct MatmulStage::Scratch {
  float* up;       // [chunk rows, kPieceColumns]
  float* partial;  // [chunk rows, kStripRows] a strip with fewer rows
  uint8_t* weight;
};

// Strips [strips.begin, strips.end) of a projection times rows [first, first + n).
struct MatmulStage::Piece {
  uint32_t projection;
  Range strips;
  uint32_t first, n;
  uint32_t out;   // where the first row goes
  bool up_first;  // of gate and up, where the piece before ended

  [[nodiscard]] uint32_t column() const { return strips.begin * kStripRows; }
  [[nodiscard]] uint32_t n_columns(const PreparedWeight& weight) const {
    return std::min(strips.end * kStripRows, weight.n_rows()) - column();
  }
};

// How a step cuts the product into items: chunks of rows, in each of them pieces of strips, which
// lie within one projection; gate and up strips count together.
struct MatmulStage::Cut {
  uint32_t n_rows, chunk_rows;
  uint32_t out;  // where the first row goes
  uint32_t piece_strips;
  uint32_t n_pieces;  // of a chunk
  [[nodiscard]] uint32_t n_chunks() const { return (n_rows + chunk_rows - 1) / chunk_rows; }
};

MatmulStage::MatmulStage(MatmulSpec spec)
    : spec_(std::move(spec)),
      activations_(spec_.input, forms_of(spec_)),
      chunk_(spec_.input.width, forms_of(spec_)) {
  reads.push_back(spec_.input.buffer);
  if (spec_.residual) reads.push_back(*spec_.residual);
  writes.push_back(spec_.projections[0].out);
  for (size_t i = 1; i < spec_.projections.size() && !spec_.gated; ++i) {
    writes.push_back(spec_.projections[i].out);
  }
}

size_t MatmulStage::scratch_bytes(const StageLimits& limits) const {
  const Kernels& kernels = *limits.kernels;
  size_t weight = 0;
  for (const Projection& p : spec_.projections) {
    weight = std::max(weight, p.weight->scratch_bytes(kernels));
  }
  const size_t rows = chunk_.rows(kernels);
  return round_up(activations_.scratch_bytes(kernels), 64) +
         rows * (kPieceColumns + kStripRows) * sizeof(float) + weight;
}

size_t MatmulStage::shared_bytes(const StageLimits& limits) const {
  return activations_.shared_bytes(limits);
}

PhaseItems MatmulStage::items(const StepContext& step, uint32_t phase) const {
  if (phase == 0) return activations_.items(step);
  if (phase > 1) return {};
  const Cut all = cut(step);
  return {all.n_chunks() * all.n_pieces};
}

void MatmulStage::run(const StepContext& step, const Worker& worker, uint32_t phase,
                      Items& items) const {
  if (phase == 0) {
    activations_.run(step, worker.scratch, items);
  } else {
    multiply(step, worker, items);
  }
}

MatmulStage::Cut MatmulStage::cut(const StepContext& step) const {
  const Range rows = spec_.input.count.range(step);
  const uint32_t n_rows = rows.end - rows.begin;
  Cut cut{n_rows, chunk_.even_rows(*step.kernels, n_rows), spec_.out_holds_pass ? 0 : rows.begin, 0,
          0};
  const size_t n_projections = spec_.gated ? 1 : spec_.projections.size();
  const auto count = [&](auto&& n_of) {
    uint32_t n = 0;
    for (size_t p = 0; p < n_projections; ++p) n += n_of(spec_.projections[p].weight->n_strips());
    return n;
  };
  const uint32_t n_strips = count([](uint32_t n) { return n; });
  const bool in_pairs = step.kernels->pairs_strips && cut.n_rows > kStreamedRows;
  cut.piece_strips = piece_strips(n_strips, step.n_workers, in_pairs);
  cut.n_pieces = count([&](uint32_t n) { return (n + cut.piece_strips - 1) / cut.piece_strips; });
  return cut;
}

MatmulStage::Piece MatmulStage::piece(const Cut& cut, uint32_t item) const {
  Piece piece{};
  piece.first = item / cut.n_pieces * cut.chunk_rows;
  piece.n = std::min(cut.chunk_rows, cut.n_rows - piece.first);
  piece.out = cut.out + piece.first;
  uint32_t begin = item % cut.n_pieces;  // in pieces
  while (true) {
    const uint32_t n_strips = spec_.projections[piece.projection].weight->n_strips();
    const uint32_t n_pieces = (n_strips + cut.piece_strips - 1) / cut.piece_strips;
    if (begin < n_pieces) {
      piece.strips = {begin * cut.piece_strips, std::min((begin + 1) * cut.piece_strips, n_strips)};
      piece.up_first = begin % 2 == 1;
      return piece;
    }
    begin -= n_pieces;
    ++piece.projection;
  }
}

void MatmulStage::multiply(const StepContext& step, const Worker& worker, Items& items) const {
  uint32_t item = items.next();
  if (item == WorkShares::kNone) return;
  const Kernels& kernels = *step.kernels;
  const Activations x = activations_.get(step, worker.scratch);
  const Cut all = cut(step);
  Scratch scratch{};
  scratch.up =
      reinterpret_cast<float*>(worker.scratch + round_up(activations_.scratch_bytes(kernels), 64));
  scratch.partial = scratch.up + size_t{all.chunk_rows} * kPieceColumns;
  scratch.weight =
      reinterpret_cast<uint8_t*>(scratch.partial + size_t{all.chunk_rows} * kStripRows);
  for (; item != WorkShares::kNone; item = items.next()) {
    run_piece(step, worker.index, x, piece(all, item), scratch);
  }
}

void MatmulStage::run_piece(const StepContext& step, uint32_t worker, const Activations& x,
                            const Piece& piece, const Scratch& scratch) const {
  const Projection& projection = spec_.projections[piece.projection];
  const RowsView& out = step.values[projection.out];
  const auto multiply_up = [&] {
    dot_piece(step, x, spec_.projections[1], piece, {scratch.up, kPieceColumns}, scratch);
  };
  if (spec_.gated && piece.up_first) multiply_up();
  float* const y = out.row(piece.out) + piece.column();
  dot_piece(step, x, projection, piece, {y, out.stride}, scratch);
  if (spec_.gated && !piece.up_first) multiply_up();
  finish(step, projection, piece, scratch);
  if (out.peaks == nullptr) return;
  out.peaks->note(*step.kernels, worker, piece.out, piece.n, piece.column(), y, out.stride,
                  piece.n_columns(*projection.weight));
}

// out: at the piece's first row and column.
void MatmulStage::dot_piece(const StepContext& step, const Activations& x,
                            const Projection& projection, const Piece& piece, const RowsView& out,
                            const Scratch& scratch) const {
  const PreparedWeight& weight = *projection.weight;
  const uint32_t n_whole = piece.n_columns(weight) / kStripRows;
  const uint32_t partial = piece.strips.begin + n_whole;
  weight.dot_strips(*step.kernels, piece.strips.begin, n_whole, x, piece.first, piece.n, out.data,
                    out.stride, scratch.weight);
  if (partial == piece.strips.end) return;
  weight.dot_strips(*step.kernels, partial, 1, x, piece.first, piece.n, scratch.partial, kStripRows,
                    scratch.weight);
  const uint32_t n_columns = piece.n_columns(weight) % kStripRows;
  for (uint32_t t = 0; t < piece.n; ++t) {
    std::memcpy(out.data + t * out.stride + n_whole * kStripRows, scratch.partial + t * kStripRows,
                n_columns * sizeof(float));
  }
}

void MatmulStage::finish(const StepContext& step, const Projection& projection, const Piece& piece,
                         const Scratch& scratch) const {
  const Kernels& kernels = *step.kernels;
  const uint32_t n = piece.n_columns(*projection.weight);
  const uint32_t column = piece.column();
  const float* up_bias = spec_.gated ? spec_.projections[1].bias : nullptr;
  for (uint32_t t = 0; t < piece.n; ++t) {
    float* y = step.values[projection.out].row(piece.out + t) + column;
    if (projection.bias != nullptr) kernels.add(y, projection.bias + column, y, n);
    if (spec_.activation != 0) kernels.activate(spec_.activation, y, y, n);
    if (spec_.gated) {
      float* up = scratch.up + t * kPieceColumns;
      if (up_bias != nullptr) kernels.add(up, up_bias + column, up, n);
      kernels.multiply(y, up, y, n);
    }
    if (spec_.scale != 1) kernels.scale(y, spec_.scale, y, n);
    if (spec_.softcap != 0) kernels.softcap(y, spec_.softcap, y, n);
    if (spec_.residual) {
      kernels.add(y, step.values[*spec_.residual].row(piece.out + t) + column, y, n);
    }
  }
}

}  // namespace bp::cpu
