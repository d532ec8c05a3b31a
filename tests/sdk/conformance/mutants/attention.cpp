#include "attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backplane/reference/dot.hpp"
#include "kernels/kernels.hpp"

namespace bp::mutants {

namespace {

using reference::Matrix;
using reference::OpCall;

class WrongHead {
 public:
  WrongHead(const OpCall& call, const bp_attr_attention& a, const AttentionMistake& mistake,
            uint64_t token, uint32_t head)
      : step_(call.step()),
        a_(a),
        mistake_(mistake),
        group_(call.program().kv_slots()[a.kv_slot].group),
        sequence_(step_.sequence_of(token)),
        kv_head_(mistake.interleaved_heads ? head % a.n_kv_heads
                                           : head / (a.n_heads / a.n_kv_heads)),
        q_(call.input(0).row(token) + uint64_t{head} * a.head_dim) {
    const uint64_t position = static_cast<uint64_t>(step_.batch().positions[token]);
    const uint64_t context = step_.batch().context_len[sequence_];
    end_ = a.causal == 0 ? context : std::min(context, position + 1 + mistake.sees_next);
    const uint64_t window = a.window == 0 ? 0 : a.window + mistake.window_too_wide;
    begin_ = window != 0 && position + 1 > window ? position + 1 - window : 0;
  }

  void run(const float* sink, float* out) const {
    std::vector<double> scores, sums(a_.v_head_dim);
    double largest = sink == nullptr ? -std::numeric_limits<double>::infinity() : *sink;
    for (uint64_t p = begin_; p < end_; ++p) {
      scores.push_back(score(p));
      largest = std::max(largest, scores.back());
    }
    if (mistake_.without_max) largest = 0;
    double denominator = sink == nullptr ? 0 : exp_of(*sink - largest);
    for (uint64_t p = begin_; p < end_; ++p) {
      if (is_forgotten(p)) continue;
      const double weight = exp_of(scores[p - begin_] - largest);
      denominator += weight;
      add(p, weight, sums);
    }
    for (uint64_t p = end_; mistake_.multiplies_by_zero && p % step_.kv().block_size() != 0; ++p) {
      add(p, 0, sums);
    }
    for (uint32_t d = 0; d < a_.v_head_dim; ++d) out[d] = static_cast<float>(sums[d] / denominator);
  }

 private:
  [[nodiscard]] bool is_forgotten(uint64_t p) const {
    if (mistake_.forgets_second_block) return p / step_.kv().block_size() == 1;
    if (!mistake_.hides_before_chunk) return false;
    const bp_batch& batch = step_.batch();
    const uint32_t first = batch.query_start[sequence_];
    return batch.query_start[sequence_ + 1] - first > 1 &&
           p + 1 == static_cast<uint64_t>(batch.positions[first]);
  }
  [[nodiscard]] double exp_of(double x) const {
    return mistake_.without_max ? std::exp(static_cast<float>(x)) : std::exp(x);
  }
  [[nodiscard]] uint64_t block_of(uint64_t p) const {
    return step_.block_of(group_, mistake_.table_of_first ? 0 : sequence_, p);
  }
  [[nodiscard]] double score(uint64_t p) const {
    const float* k = step_.kv().k(a_.kv_slot, block_of(p), p % step_.kv().block_size()) +
                     uint64_t{kv_head_} * a_.head_dim;
    const double score = reference::dot(q_, k, a_.head_dim) * a_.scale;
    return a_.softcap == 0 ? score : reference::soft_cap(a_.softcap, score);
  }
  void add(uint64_t p, double weight, std::vector<double>& sums) const {
    const float* v = step_.kv().v(a_.kv_slot, block_of(p), p % step_.kv().block_size()) +
                     uint64_t{kv_head_} * a_.v_head_dim;
    for (uint32_t d = 0; d < a_.v_head_dim; ++d) sums[d] += weight * v[d];
  }

  const reference::Step& step_;
  const bp_attr_attention& a_;
  const AttentionMistake& mistake_;
  uint32_t group_, sequence_, kv_head_;
  const float* q_;
  uint64_t begin_, end_;
};

}  // namespace

void attend_wrongly(const OpCall& call, const bp_attr_attention& a, const float* sinks,
                    const AttentionMistake& mistake) {
  const Matrix o = call.output(0);
  for (uint64_t t = 0; t < o.n_rows; ++t) {
    if (!call.step().is_running(call.step().sequence_of(t))) continue;
    for (uint32_t h = 0; h < a.n_heads; ++h) {
      WrongHead(call, a, mistake, t, h)
          .run(sinks == nullptr ? nullptr : sinks + h, o.row(t) + uint64_t{h} * a.v_head_dim);
    }
  }
}

}  // namespace bp::mutants
