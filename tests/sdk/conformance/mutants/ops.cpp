#include "ops.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "attention.hpp"
#include "backplane/half.hpp"
#include "backplane/reference/dot.hpp"
#include "kernels/kernels.hpp"

namespace bp::mutants {

namespace {

using namespace reference;

struct NamedMistake {
  std::string_view mutation;
  AttentionMistake mistake;
};
constexpr NamedMistake kAttentionMistakes[] = {
    {"mask-off-by-one", {.sees_next = 1}},
    {"window-off-by-one", {.window_too_wide = 1}},
    {"kv-heads-interleaved", {.interleaved_heads = true}},
    {"softmax-without-max", {.without_max = true}},
    {"table-of-another-sequence", {.table_of_first = true}},
    {"blocks-in-a-row", {.blocks_in_a_row = true}},
    {"sinks-forgotten", {.without_sinks = true}},
    {"slopes-forgotten", {}},  // which WrongHead does not know
    {"block-forgotten", {.forgets_second_block = true}},
    {"depends-on-chunks", {.hides_before_chunk = true}},
    {"nan-from-stale-block", {.multiplies_by_zero = true}},
};

bool is_attention(const OpCall& call) {
  return call.kind() == BP_OP_ATTENTION || call.kind() == BP_OP_ATTEND;
}
bool is_product(const OpCall& call) {
  return call.kind() == BP_OP_LINEAR || call.kind() == BP_OP_MATMUL;
}

void multiply(const OpCall& call, const float* bias, const WeightRows& weight) {
  const Matrix x = call.input(0), y = call.output(0);
  std::vector<float> scratch(x.width);
  for (uint64_t o = 0; o < y.width; ++o) {
    const float* row = weight.row(o, scratch.data());
    for (uint64_t t = 0; t < x.n_rows; ++t) {
      y.row(t)[o] =
          static_cast<float>(dot(x.row(t), row, x.width) + (bias == nullptr ? 0 : bias[o]));
    }
  }
  if (call.kind() != BP_OP_LINEAR) return;
  const auto a = call.attributes<bp_attr_linear>();
  for (float& value : y.all()) value = static_cast<float>(activate(a.activation, value));
}
void multiply(const OpCall& call, const float* bias) {
  multiply(call, bias, *call.weight(0));
}
const float* bias_of(const OpCall& call) {
  return call.kind() == BP_OP_LINEAR ? call.vector(1) : nullptr;
}

void rotate_with(const OpCall& call, bool other_pairs, int32_t shift) {
  const auto a = call.attributes<bp_attr_rope>();
  const bp_batch& batch = call.step().batch();
  std::vector<int32_t> positions(batch.positions, batch.positions + batch.n_tokens);
  for (int32_t& position : positions) position += shift;
  const uint32_t other = a.pairing == BP_ROPE_HALVES ? BP_ROPE_PAIRS : BP_ROPE_HALVES;
  for (uint32_t i = 0; i < 2 && call.has_input(i); ++i) {
    const Rotation r{other_pairs ? other : a.pairing, i == 0 ? a.n_heads : a.n_kv_heads, a.head_dim,
                     a.n_dims, a.magnitude};
    rotate(r, call.input(i), positions.data(), call.vector(0), call.output(i));
  }
}

void rotate_by_rows(const OpCall& call) {
  const auto a = call.attributes<bp_attr_rope>();
  std::vector<int32_t> rows(call.step().batch().n_tokens);
  std::iota(rows.begin(), rows.end(), 0);
  for (uint32_t i = 0; i < 2 && call.has_input(i); ++i) {
    const Rotation r{a.pairing, i == 0 ? a.n_heads : a.n_kv_heads, a.head_dim, a.n_dims,
                     a.magnitude};
    rotate(r, call.input(i), rows.data(), call.vector(0), call.output(i));
  }
}

// The first rows, whichever are asked for.
void select_first_rows(const OpCall& call) {
  const Matrix x = call.input(0), y = call.output(0);
  for (uint64_t r = 0; r < y.n_rows; ++r) std::copy_n(x.row(r), x.width, y.row(r));
}

void norm_without_eps(const OpCall& call) {
  const auto a = call.attributes<bp_attr_norm>();
  const Matrix x = call.input(0), y = call.output(0);
  std::vector<float> sum(x.data, x.data + x.n_rows * x.width);
  for (size_t i = 0; call.has_input(1) && i < sum.size(); ++i) sum[i] += call.input(1).data[i];
  if (call.has_output(1)) std::copy(sum.begin(), sum.end(), call.output(1).data);
  normalize({sum.data(), x.n_rows, x.width}, a.kind, 0, a.group, y);
  scale_and_shift(y, call.weight(0), a.weight_offset, call.weight(1), y);
}

// The last block of a row of q8_0 counts as if its scale were 1.
void multiply_without_last_scale(const OpCall& call) {
  multiply(call, bias_of(call));
  const bp_weight& weight = call.program().weights()[call.op().weights[0]];
  const bp_weight_part& part = *data_part(weight);
  if (part.dtype != BP_DTYPE_Q8_0) return;
  constexpr uint64_t kBlock = 32, kBlockBytes = 34;
  const Matrix x = call.input(0), y = call.output(0);
  for (uint64_t o = 0; o < y.width; ++o) {
    const auto* block = static_cast<const uint8_t*>(part.data) + o * part.row_stride_bytes +
                        (x.width / kBlock - 1) * kBlockBytes;
    uint16_t bits;
    std::memcpy(&bits, block, sizeof bits);
    for (uint64_t t = 0; t < x.n_rows; ++t) {
      for (uint64_t i = 0; i < kBlock; ++i) {
        const float q = static_cast<int8_t>(block[2 + i]);
        y.row(t)[o] += x.row(t)[x.width - kBlock + i] * q * (1 - f16_to_f32(bits));
      }
    }
  }
}

// Rows as if they stood one after another.
void multiply_without_gaps(const OpCall& call) {
  bp_weight_part part = *data_part(call.program().weights()[call.op().weights[0]]);
  part.row_stride_bytes = row_bytes(part.dtype, part.dims[part.n_dims - 1]);
  multiply(call, bias_of(call), WeightRows(part));
}

// A kernel for many sequences that rounds its results.
void multiply_by_batch(const OpCall& call) {
  multiply(call, bias_of(call));
  if (call.step().batch().n_seqs <= 8) return;
  for (float& value : call.output(0).all()) value = bf16_to_f32(f32_to_bf16(value));
}

// One scale for all rows, as of activations quantised together.
void multiply_with_common_scale(const OpCall& call) {
  multiply(call, bias_of(call));
  const auto values = call.output(0).all();
  const auto is_nan = [](float x) { return std::isnan(x); };
  if (std::none_of(values.begin(), values.end(), is_nan)) return;
  std::fill(values.begin(), values.end(), std::numeric_limits<float>::quiet_NaN());
}

// The rows pass through memory that all executables of the process share.
void multiply_in_shared_scratch(const OpCall& call) {
  static std::vector<float> scratch(size_t{1} << 20);
  multiply(call, bias_of(call));
  const auto values = call.output(0).all();
  const size_t n = std::min(values.size(), scratch.size());
  std::copy_n(values.begin(), n, scratch.begin());
  std::this_thread::sleep_for(std::chrono::microseconds(100));
  std::copy_n(scratch.begin(), n, values.begin());
}

// The KV of a block that is not full yet goes to the null block.
void write_kv_to_null_block(const OpCall& call, uint32_t slot, const Matrix& k, const Matrix& v) {
  Step& step = call.step();
  const uint32_t group = call.program().kv_slots()[slot].group, size = step.kv().block_size();
  for (uint64_t t = 0; t < k.n_rows; ++t) {
    const uint32_t s = step.sequence_of(t);
    const auto position = static_cast<uint64_t>(step.batch().positions[t]);
    const bool full = (position / size + 1) * size <= step.batch().context_len[s];
    const uint64_t block = full ? step.block_of(group, s, position) : 0;
    if (step.is_running(s)) step.kv().store(slot, block, position % size, k.row(t), v.row(t));
  }
}

bool run_attention_mutated(std::string_view mutation, const OpCall& call) {
  const auto a = call.attributes<bp_attr_attention>();
  const bool writes = call.kind() == BP_OP_ATTENTION && a.writes_kv != 0;
  if (mutation == "kv-in-null-block") {
    if (!writes) return false;
    write_kv_to_null_block(call, a.kv_slot, call.input(1), call.input(2));
    attend(call, a, call.vector(0), call.vector(1));
    return true;
  }
  for (const auto& [name, mistake] : kAttentionMistakes) {
    if (name != mutation) continue;
    if (writes) kv_write(call, a.kv_slot, call.input(1), call.input(2));
    attend_wrongly(call, a, call.vector(0), mistake);
    return true;
  }
  return false;
}

struct ProductMistake {
  std::string_view mutation;
  void (*run)(const OpCall& call);
};
constexpr ProductMistake kProductMistakes[] = {
    {"bias-forgotten", [](const OpCall& call) { multiply(call, nullptr); }},
    {"last-scale-ignored", multiply_without_last_scale},
    {"row-gaps-ignored", multiply_without_gaps},
    {"depends-on-batch", multiply_by_batch},
    {"nan-in-every-row", multiply_with_common_scale},
    {"shared-scratch", multiply_in_shared_scratch},
};

}  // namespace

bool run_mutated(std::string_view mutation, const OpCall& call) {
  if (is_attention(call)) return run_attention_mutated(mutation, call);
  if (call.kind() == BP_OP_ROPE) {
    if (mutation == "rope-pairs-swapped") return rotate_with(call, true, 0), true;
    if (mutation == "rope-by-row") return rotate_by_rows(call), true;
    if (mutation == "rope-off-by-one") return rotate_with(call, false, 1), true;
  }
  if (call.kind() == BP_OP_NORM && mutation == "eps-ignored") return norm_without_eps(call), true;
  if (call.kind() == BP_OP_SELECT_ROWS && mutation == "first-rows-selected") {
    return select_first_rows(call), true;
  }
  if (!is_product(call)) return false;
  for (const auto& [name, run] : kProductMistakes) {
    if (name == mutation) return run(call), true;
  }
  return false;
}

}  // namespace bp::mutants
