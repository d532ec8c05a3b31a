#include <algorithm>
#include <cmath>
#include <limits>

#include "backplane/position_bias.hpp"
#include "backplane/reference/dot.hpp"
#include "kernels/kernels.hpp"

namespace bp::reference {

namespace {

// Attention of one query head of one token.
class Head {
 public:
  // slope: null or the head's.
  Head(const OpCall& call, const bp_attr_attention& a, uint64_t token, uint32_t head,
       const float* slope)
      : step_(call.step()),
        a_(a),
        group_(call.program().kv_slots()[a.kv_slot].group),
        sequence_(step_.sequence_of(token)),
        kv_head_(head / (a.n_heads / a.n_kv_heads)),
        q_(call.input(0).row(token) + uint64_t{head} * a.head_dim),
        slope_(slope),
        position_(static_cast<uint64_t>(step_.batch().positions[token])) {
    end_ = a.causal != 0 ? position_ + 1 : step_.batch().context_len[sequence_];
    begin_ = a.window != 0 && position_ + 1 > a.window ? position_ + 1 - a.window : 0;
  }

  // sink: null or the head's. out [v_head_dim].
  void run(const float* sink, Scratch& scratch, float* out) const {
    float* scores = scratch.floats.data();
    const double largest = fill_scores(sink, scores);
    double* sums = scratch.doubles.data();
    std::fill_n(sums, a_.v_head_dim, 0.0);
    double denominator = sink == nullptr ? 0 : std::exp(*sink - largest);
    for (uint64_t p = begin_; p < end_; ++p) {
      const double weight = std::exp(scores[p - begin_] - largest);
      denominator += weight;
      const float* v = step_.kv().v(a_.kv_slot, block_of(p), p % step_.kv().block_size()) +
                       uint64_t{kv_head_} * a_.v_head_dim;
      for (uint32_t d = 0; d < a_.v_head_dim; ++d) sums[d] += weight * v[d];
    }
    for (uint32_t d = 0; d < a_.v_head_dim; ++d) out[d] = static_cast<float>(sums[d] / denominator);
  }

 private:
  [[nodiscard]] uint64_t block_of(uint64_t position) const {
    return step_.block_of(group_, sequence_, position);
  }
  [[nodiscard]] double bias(uint64_t position) const {
    if (slope_ == nullptr) return 0;
    return position_bias(a_.slope_rounding, *slope_, static_cast<int64_t>(position),
                         static_cast<int64_t>(position_));
  }
  // Returns the largest score, the sink included; a NaN is passed over here and comes through exp.
  double fill_scores(const float* sink, float* scores) const {
    double largest = sink == nullptr ? -std::numeric_limits<double>::infinity() : *sink;
    for (uint64_t p = begin_; p < end_; ++p) {
      const float* k = step_.kv().k(a_.kv_slot, block_of(p), p % step_.kv().block_size()) +
                       uint64_t{kv_head_} * a_.head_dim;
      double score = (dot(q_, k, a_.head_dim) + bias(p)) * a_.scale;
      if (a_.softcap != 0) score = soft_cap(a_.softcap, score);
      scores[p - begin_] = static_cast<float>(score);
      if (scores[p - begin_] > largest) largest = scores[p - begin_];
    }
    return largest;
  }

  const Step& step_;
  const bp_attr_attention& a_;
  uint32_t group_;
  uint32_t sequence_;
  uint32_t kv_head_;
  const float* q_;
  const float* slope_;
  uint64_t position_;     // the token's
  uint64_t begin_, end_;  // positions that are seen
};

}  // namespace

void kv_write(const OpCall& call, uint32_t kv_slot, const Matrix& k, const Matrix& v) {
  Step& step = call.step();
  const uint32_t group = call.program().kv_slots()[kv_slot].group;
  for (uint64_t t = 0; t < k.n_rows; ++t) {
    const uint32_t sequence = step.sequence_of(t);
    if (!step.is_running(sequence)) continue;
    const uint64_t position = static_cast<uint64_t>(step.batch().positions[t]);
    step.kv().store(kv_slot, step.block_of(group, sequence, position),
                    position % step.kv().block_size(), k.row(t), v.row(t));
  }
}

void attend(const OpCall& call, const bp_attr_attention& a, const float* sinks,
            const float* slopes) {
  Step& step = call.step();
  const Matrix o = call.output(0);
  const auto run = [&](uint64_t begin, uint64_t end, Scratch& scratch) {
    for (uint64_t i = begin; i < end; ++i) {
      const uint64_t token = i / a.n_heads;
      const auto head = static_cast<uint32_t>(i % a.n_heads);
      float* out = o.row(token) + uint64_t{head} * a.v_head_dim;
      if (step.is_running(step.sequence_of(token))) {
        Head(call, a, token, head, slopes == nullptr ? nullptr : slopes + head)
            .run(sinks == nullptr ? nullptr : sinks + head, scratch, out);
      } else {
        std::fill_n(out, a.v_head_dim, 0.0f);
      }
    }
  };
  uint64_t longest = 0;
  for (uint32_t s = 0; s < step.batch().n_seqs; ++s) {
    longest = std::max<uint64_t>(longest, step.batch().context_len[s]);
  }
  const uint64_t cost = longest * (a.head_dim + a.v_head_dim);
  step.workers().for_ranges(o.n_rows * a.n_heads, cost, run);
}

}  // namespace bp::reference
