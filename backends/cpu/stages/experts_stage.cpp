#include "backends/cpu/stages/experts_stage.hpp"

#include <algorithm>

#include "backends/cpu/rows/route.hpp"

namespace bp::cpu {

namespace {

// Pairs of a row and an expert that one worker prepares while the others wait: sharing them out
// would cost a phase more.
constexpr uint32_t kFewPairs = 32;
constexpr uint32_t kRowItems = 64;
// Pieces of all experts' down strips that a worker takes at least.
constexpr uint32_t kDownSharePieces = 4;
constexpr uint32_t kManyDownStrips = 8;

ActivationForms forms_of(std::initializer_list<const Matrices*> all) {
  ActivationForms forms;
  for (const Matrices* matrices : all) {
    for (const auto& matrix : *matrices) forms.serve(*matrix);
  }
  return forms;
}

}  // namespace

struct ExpertsStage::Scratch {
  uint8_t* gathered;  // a chunk of rows
  float* gate;        // [chunk rows, kPieceColumns], products with down too
  float* up;          // [chunk rows, kPieceColumns]
  uint8_t* weight;
};

struct ExpertsStage::Cut {
  uint32_t n_strips, piece_strips;
  [[nodiscard]] uint32_t n_pieces() const { return (n_strips + piece_strips - 1) / piece_strips; }
  [[nodiscard]] Range piece(uint32_t i) const {
    return {i * piece_strips, std::min((i + 1) * piece_strips, n_strips)};
  }
};

ExpertsStage::ExpertsStage(ExpertsSpec spec)
    : spec_(std::move(spec)),
      row_layout_(forms_of({&spec_.gate, &spec_.up}), spec_.input.width),
      hidden_layout_(forms_of({&spec_.down}), spec_.n_ff),
      chunk_(std::max(spec_.input.width, spec_.n_ff),
             forms_of({&spec_.gate, &spec_.up, &spec_.down})) {
  reads = {spec_.input.buffer, spec_.logits};
  if (spec_.residual) reads.push_back(*spec_.residual);
  writes = {spec_.out};
}

ExpertsShape ExpertsStage::shape(uint32_t n_rows, const Kernels& kernels) const {
  ExpertsShape shape{};
  shape.n_rows = n_rows;
  shape.n_experts = n_experts();
  shape.n_used = spec_.routing.n_used;
  shape.width = spec_.input.width;
  shape.n_ff = spec_.n_ff;
  shape.chunk_rows = chunk_.rows(kernels);
  shape.keeps_floats = spec_.input.norm.has_value();
  shape.hidden_row_bytes = hidden_layout_.row_bytes(kernels);
  return shape;
}

size_t ExpertsStage::shared_bytes(const StageLimits& limits) const {
  return ExpertsMemory::bytes(shape(limits.max_rows(spec_.input.count), *limits.kernels));
}

ExpertsMemory ExpertsStage::memory(const StepContext& step) const {
  return {shape(n_rows(step), *step.kernels), step.shared};
}

size_t ExpertsStage::scratch_bytes(const StageLimits& limits) const {
  const size_t row_bytes =
      row_layout_.row_bytes(*limits.kernels) + 2 * kPieceColumns * sizeof(float);
  size_t weight = 0;
  for (const Matrices* matrices : {&spec_.gate, &spec_.up, &spec_.down}) {
    weight = std::max(weight, cpu::scratch_bytes(*matrices, *limits.kernels));
  }
  return chunk_.rows(*limits.kernels) * row_bytes + weight;
}

ExpertsStage::Scratch ExpertsStage::scratch(const Kernels& kernels, uint8_t* memory) const {
  const size_t n = chunk_.rows(kernels);
  Scratch own{};
  own.gathered = memory;
  own.gate = reinterpret_cast<float*>(memory + n * row_layout_.row_bytes(kernels));
  own.up = own.gate + n * kPieceColumns;
  own.weight = reinterpret_cast<uint8_t*>(own.up + n * kPieceColumns);
  return own;
}

bool ExpertsStage::has_few_rows(const StepContext& step) const {
  return n_rows(step) * spec_.routing.n_used <= kFewPairs;
}

ExpertsStage::Cut ExpertsStage::cut(const StepContext& step, uint32_t phase) const {
  if (phase == kGateUp) {
    const uint32_t n_strips = spec_.gate[0]->n_strips();
    return {n_strips, piece_strips(memory(step).rows.n_chunks() * n_strips, step.n_workers)};
  }
  const uint32_t n_strips = spec_.down[0]->n_strips();
  if (has_few_rows(step)) return {n_strips, piece_strips(n_strips, step.n_workers)};
  const uint32_t most = n_strips / (kDownSharePieces * step.n_workers);
  return {n_strips, std::clamp(most, 1u, kManyDownStrips)};
}

void ExpertsStage::begin(const StepContext& step, uint32_t phase) const {
  if (phase != kGateUp && phase != kDown) return;
  ExpertsMemory all = memory(step);
  const bool few = has_few_rows(step);
  if (phase == kGateUp) {
    for (uint32_t r = 0; few && r < n_rows(step); ++r) route(step, all, r);
    sort(step, all);
    if (step.weights_are_streamed) ask_for_experts(all);
  } else {
    for (uint32_t c = 0; few && c < all.rows.n_chunks(); ++c) {
      prepare_hidden(step, all, all.rows.chunk(c));
    }
  }
}

PhaseItems ExpertsStage::items(const StepContext& step, uint32_t phase) const {
  const uint32_t n = n_rows(step);
  if (n == 0) return {};
  switch (phase) {
    case kRoute:
      return {has_few_rows(step) ? 0 : std::min(n, kRowItems)};
    case kGateUp:
      return {memory(step).rows.n_chunks() * cut(step, phase).n_pieces()};
    case kPrepareHidden:
      return {has_few_rows(step) ? 0 : memory(step).rows.n_chunks()};
    default:
      return {cut(step, phase).n_pieces()};
  }
}

void ExpertsStage::run(const StepContext& step, const Worker& worker, uint32_t phase,
                       Items& items) const {
  uint32_t item = items.next();
  if (item == WorkShares::kNone) return;
  const ExpertsMemory all = memory(step);
  const Scratch own = scratch(*step.kernels, worker.scratch);
  if (phase == kGateUp) return run_gate_up(step, own, items, item);
  const Cut down = cut(step, kDown);
  for (; item != WorkShares::kNone; item = items.next()) {
    if (phase == kRoute) {
      const Range rows = part_of(item, std::min(n_rows(step), kRowItems), n_rows(step));
      for (uint32_t r = rows.begin; r < rows.end; ++r) route(step, all, r);
    } else if (phase == kPrepareHidden) {
      prepare_hidden(step, all, all.rows.chunk(item));
    } else {
      run_down(step, own, down.piece(item));
    }
  }
}

// Its experts and their shares, and the row as gate and up take it, once for all experts.
void ExpertsStage::route(const StepContext& step, const ExpertsMemory& all, uint32_t row) const {
  const Kernels& kernels = *step.kernels;
  const size_t first = size_t{row} * all.n_used;
  route_row(spec_.routing, step.values[spec_.logits].row(row), spec_.selection_bias, n_experts(),
            all.ids + first, all.shares + first);
  const float* x = spec_.input.row(step, row);
  if (spec_.input.norm) {
    float* y = all.row_floats(row);
    normalize_row(kernels, *spec_.input.norm, x, spec_.input.width, y);
    x = y;
  }
  if (!row_layout_.forms().panels) return;
  kernels.quantize_row(x, spec_.input.width, all.panel(row), 1, 0,
                       max_seconds(1, spec_.input.width));
}

void ExpertsStage::sort(const StepContext& step, ExpertsMemory& all) const {
  all.rows.sort(chunk_.rows(*step.kernels),
                [&](uint32_t pair) { return static_cast<uint32_t>(all.ids[pair]); });
}

void ExpertsStage::ask_for_experts(const ExpertsMemory& all) const {
  for (const Matrices* matrices : {&spec_.gate, &spec_.up, &spec_.down}) {
    for (uint32_t c = 0; c < all.rows.n_chunks(); ++c) {
      read_ahead(*(*matrices)[all.rows.chunk(c).matrix]);
    }
  }
}

Activations ExpertsStage::gather(const StepContext& step, const ExpertsMemory& all,
                                 const RowChunk& chunk, uint8_t* memory) const {
  const bool panels = row_layout_.forms().panels;
  const auto floats = [&](uint32_t i) -> const float* {
    const uint32_t row = all.row_of(chunk.first + i);
    if (spec_.input.norm) return all.row_floats(row);
    return spec_.input.row(step, row);
  };
  const auto panel = [&](uint32_t i) -> const int32_t* {
    return panels ? all.panel(all.row_of(chunk.first + i)) : nullptr;
  };
  Activations x = row_layout_.place(*step.kernels, chunk.n, memory);
  if (chunk.n == 1 && panels && x.floats == nullptr && x.bf16 == nullptr) {
    x.panels = panel(0);
  } else {
    row_layout_.fill(*step.kernels, x, 0, chunk.n, floats, panel);
  }
  return x;
}

// Items are pieces of an expert's gate and up for a chunk of its rows.
void ExpertsStage::run_gate_up(const StepContext& step, const Scratch& own, Items& items,
                               uint32_t item) const {
  const ExpertsMemory all = memory(step);
  const Cut pieces = cut(step, kGateUp);
  Activations x;
  for (uint32_t last = ~0u; item != WorkShares::kNone; item = items.next()) {
    const uint32_t c = item / pieces.n_pieces();
    const RowChunk& chunk = all.rows.chunk(c);
    if (c != last) x = gather(step, all, chunk, own.gathered);
    last = c;
    const Range strips = pieces.piece(item % pieces.n_pieces());
    const uint32_t e = chunk.matrix;
    dot_strips(*step.kernels, *spec_.gate[e], strips, x, 0, chunk.n, own.gate, own.weight);
    dot_strips(*step.kernels, *spec_.up[e], strips, x, 0, chunk.n, own.up, own.weight);
    const uint32_t column = strips.begin * kStripRows;
    const uint32_t n = std::min(strips.end * kStripRows, spec_.n_ff) - column;
    for (uint32_t i = 0; i < chunk.n; ++i) {
      finish_hidden(step, e, column, n, own.gate + size_t{i} * kPieceColumns,
                    own.up + size_t{i} * kPieceColumns, all.hidden_row(chunk.first + i) + column);
    }
  }
}

void ExpertsStage::finish_hidden(const StepContext& step, uint32_t expert, uint32_t column,
                                 uint32_t n, float* gate, float* up, float* hidden) const {
  const Kernels& kernels = *step.kernels;
  const size_t first = size_t{expert} * spec_.n_ff + column;
  if (spec_.gate_bias != nullptr) kernels.add(gate, spec_.gate_bias + first, gate, n);
  if (spec_.up_bias != nullptr) kernels.add(up, spec_.up_bias + first, up, n);
  if (spec_.limit == 0) {
    if (spec_.activation != BP_ACT_NONE) kernels.activate(spec_.activation, gate, gate, n);
    kernels.multiply(gate, up, hidden, n);
    return;
  }
  for (uint32_t i = 0; i < n; ++i) {
    gate[i] = std::min(gate[i], spec_.limit);
    up[i] = std::clamp(up[i], -spec_.limit, spec_.limit);
  }
  kernels.scale(gate, spec_.alpha, hidden, n);
  kernels.activate(BP_ACT_SIGMOID, hidden, hidden, n);
  kernels.multiply(gate, hidden, gate, n);
  kernels.multiply(gate, up, hidden, n);
  kernels.add(hidden, gate, hidden, n);
}

Activations ExpertsStage::hidden_of(const StepContext& step, const ExpertsMemory& all,
                                    uint32_t expert) const {
  const size_t row_bytes = hidden_layout_.row_bytes(*step.kernels);
  return hidden_layout_.place(*step.kernels, all.rows.n_of(expert),
                              all.activations + all.rows.begin_of(expert) * row_bytes);
}

void ExpertsStage::prepare_hidden(const StepContext& step, const ExpertsMemory& all,
                                  const RowChunk& chunk) const {
  const uint32_t begin = all.rows.begin_of(chunk.matrix), first = chunk.first - begin;
  hidden_layout_.fill(
      *step.kernels, hidden_of(step, all, chunk.matrix), first, first + chunk.n,
      [&](uint32_t r) { return all.hidden_row(begin + r); }, [](uint32_t) { return nullptr; });
}

// Strips of every expert in use, so that no other worker adds to the same columns.
void ExpertsStage::run_down(const StepContext& step, const Scratch& own, Range strips) const {
  const ExpertsMemory all = memory(step);
  const RowsView& out = step.values[spec_.out];
  const uint32_t begin = strips.begin * kStripRows;
  const uint32_t end = std::min(strips.end * kStripRows, spec_.n_out);
  for (uint32_t r = 0; r < n_rows(step); ++r) std::fill(out.row(r) + begin, out.row(r) + end, 0.0f);
  for (uint32_t c = 0; c < all.rows.n_chunks(); ++c) {
    const RowChunk& chunk = all.rows.chunk(c);
    const Activations x = hidden_of(step, all, chunk.matrix);
    for (uint32_t s = strips.begin; s < strips.end; s += kPieceStrips) {
      const Range own_strips{s, std::min(s + kPieceStrips, strips.end)};
      dot_strips(*step.kernels, *spec_.down[chunk.matrix], own_strips, x,
                 chunk.first - all.rows.begin_of(chunk.matrix), chunk.n, own.gate, own.weight);
      const uint32_t column = s * kStripRows;
      add_products(step, all, chunk, column,
                   std::min(own_strips.end * kStripRows, spec_.n_out) - column, own.gate);
    }
  }
  if (!spec_.residual) return;
  for (uint32_t r = 0; r < n_rows(step); ++r) {
    const float* residual = step.values[*spec_.residual].row(r) + begin;
    step.kernels->add(out.row(r) + begin, residual, out.row(r) + begin, end - begin);
  }
}

void ExpertsStage::add_products(const StepContext& step, const ExpertsMemory& all,
                                const RowChunk& chunk, uint32_t column, uint32_t n,
                                float* products) const {
  const Kernels& kernels = *step.kernels;
  const float* bias = spec_.down_bias == nullptr
                          ? nullptr
                          : spec_.down_bias + size_t{chunk.matrix} * spec_.n_out + column;
  for (uint32_t i = 0; i < chunk.n; ++i) {
    const uint32_t sorted = chunk.first + i;
    float* product = products + size_t{i} * kPieceColumns;
    if (bias != nullptr) kernels.add(product, bias, product, n);
    float* y = step.values[spec_.out].row(all.row_of(sorted)) + column;
    kernels.multiply_add(product, all.share_of(sorted), y, y, n);
  }
}

}  // namespace bp::cpu
