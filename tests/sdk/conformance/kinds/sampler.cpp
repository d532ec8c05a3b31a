// top_k, and a stage that counts tokens, with mistakes.

#include "backplane/sampler.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "backplane/best_candidates.hpp"
#include "factories.hpp"
#include "mutation.hpp"

namespace bp::wrong {

namespace {

class TopK final : public Stage {
 public:
  explicit TopK(uint32_t k) : k_(k) {}
  std::unique_ptr<Stage> clone() const override { return std::make_unique<TopK>(*this); }

  Status apply(bp_sample_row& row) override {
    const bool dense = row.n_candidates == 0;
    if (dense) {
      for (uint32_t id = 0; id < row.n_vocab; ++id) {
        if (row.logits[id] > -INFINITY || makes("lists-forbidden")) {
          row.candidates[row.n_candidates++] = {static_cast<int32_t>(id), row.logits[id]};
        }
      }
    }
    if (makes("lists-forbidden")) {
      for (uint32_t i = 0; i < row.n_candidates; ++i) {
        row.candidates[i].logit = std::max(row.candidates[i].logit, -1000.0f);
      }
    }
    std::sort(row.candidates, row.candidates + row.n_candidates, is_better);
    row.order = BP_ORDER_DESCENDING;
    row.n_candidates = std::min(row.n_candidates, k_);
    spoil(row, dense);
    if (row.draw_scale > 0 && makes("draws-unscaled")) choose(row, 1, row.draw_floor);
    if (row.draw_scale > 0 && makes("draws-below-the-floor"))
      choose(row, row.draw_scale, -INFINITY);
    if (makes("greatest-dropped") && row.greatest != nullptr && row.n_candidates > 1) {
      row.candidates[0] = row.candidates[--row.n_candidates];
      row.order = BP_ORDER_NONE;
    }
    return {};
  }
  void effect(bp_stage_effect& out) const override {
    out.kind = BP_EFFECT_TOP_K;
    out.count = makes("effect-differs") ? k_ + 1 : k_;
  }

 private:
  void spoil(bp_sample_row& row, bool dense) const {
    bp_candidate* const c = row.candidates;
    uint32_t& n = row.n_candidates;
    if (makes("keeps-none")) n = 0;
    if (makes("nan-logit")) c[n - 1].logit = NAN;
    if (makes("lies-about-order") && n > 1) std::swap(c[0], c[n - 1]);
    if (makes("lists-twice")) c[n] = c[0], ++n;
    if (makes("drops-the-best") && n > 1) c[0] = c[n - 1], --n, row.order = BP_ORDER_NONE;
    if (makes("forms-differ") && dense && n > 1) --n;
    if (makes("writes-past-room")) c[row.n_vocab].id = 0;
    if (makes("another-vocabulary")) row.n_vocab = 1u << 30;
    if (makes("candidates-of-its-own")) {
      thread_local std::vector<bp_candidate> own;
      own.assign(c, c + n);
      row.candidates = own.data();
    }
    if (makes("own-random") && n > 1) n -= static_cast<uint32_t>(std::rand()) % 2;
    if (makes("random-of-host") && n > 1 && row.uniform(row.host, 0) < 0.2) --n;
    if (makes("sharpens")) {
      for (uint32_t i = 0; i < n; ++i) c[i].logit *= 1.5f;
    }
  }

  // Leaves one candidate, drawn.
  static void choose(bp_sample_row& row, float scale, float floor) {
    const auto weight = [&](uint32_t i) {
      const float distance = row.candidates[i].logit - row.candidates[0].logit;
      return distance < floor ? 0.0 : std::exp(static_cast<double>(distance * scale));
    };
    double left = 0;
    for (uint32_t i = 0; i < row.n_candidates; ++i) left += weight(i);
    left *= row.uniform(row.host, 0);
    uint32_t chosen = 0;
    while (chosen + 1 < row.n_candidates && left >= weight(chosen)) left -= weight(chosen++);
    row.candidates[0] = row.candidates[chosen];
    row.n_candidates = 1;
  }

  uint32_t k_;
};

std::map<int32_t, int> counts_of_all;  // the mistake of state that is nobody's

class Repeats final : public Stage {
 public:
  explicit Repeats(float strength) : strength_(strength), tokens_(new std::vector<int32_t>) {}
  std::unique_ptr<Stage> clone() const override {
    auto copy = std::make_unique<Repeats>(*this);
    if (!makes("clone-shares")) copy->tokens_.reset(new std::vector<int32_t>(*tokens_));
    if (makes("clone-forgets")) copy->tokens_->clear();
    return copy;
  }

  void accept(std::span<const int32_t> tokens, uint32_t) override {
    if (makes("counts-calls") && !tokens.empty()) tokens = tokens.first(1);
    tokens_->insert(tokens_->end(), tokens.begin(), tokens.end());
    if (!makes("state-of-all")) return;
    for (const int32_t token : tokens) ++counts_of_all[token];
  }
  void rollback(uint32_t n) override {
    if (makes("rollback-ignored")) return;
    if (makes("rollback-one-short") && n > 0) --n;
    tokens_->resize(tokens_->size() - n);
  }
  Status apply(bp_sample_row& row) override {
    const auto penalty = [&](int32_t id) {
      if (makes("state-of-all")) return strength_ * static_cast<float>(counts_of_all[id]);
      const auto count = std::count(tokens_->begin(), tokens_->end(), id);
      return strength_ * static_cast<float>(count);
    };
    if (row.n_candidates == 0) {
      for (uint32_t id = 0; id < row.n_vocab; ++id) {
        row.logits[id] -= penalty(static_cast<int32_t>(id));
      }
    }
    for (uint32_t i = 0; i < row.n_candidates; ++i) {
      row.candidates[i].logit -= penalty(row.candidates[i].id);
    }
    row.order = BP_ORDER_NONE;
    if (makes("drops-secretly") && row.n_candidates > 1) --row.n_candidates;
    return {};
  }

 private:
  float strength_;
  std::shared_ptr<std::vector<int32_t>> tokens_;
};

Result<std::unique_ptr<Stage>> make_top_k(const Params& fields, uint32_t) {
  const auto k = static_cast<uint32_t>(fields.get_int("top_k", 0));
  if (k == 0) return std::unique_ptr<Stage>();
  return std::unique_ptr<Stage>(std::make_unique<TopK>(makes("one-too-many") ? k + 1 : k));
}

Result<std::unique_ptr<Stage>> make_repeats(const Params& fields, uint32_t) {
  const double strength = fields.get_float("strength", 0);
  if (strength == 0) return std::unique_ptr<Stage>();
  return std::unique_ptr<Stage>(std::make_unique<Repeats>(static_cast<float>(strength)));
}

constexpr uint32_t kAnyRow = BP_STAGE_DENSE | BP_STAGE_SPARSE;
constexpr std::array<StageEntry, 2> kStages = {{
    {{"top_k", kAnyRow | BP_STAGE_TRUNCATES, 0}, make_top_k},
    {{"repeats", kAnyRow, 0}, make_repeats},
}};

}  // namespace

const bp_sampler_factory kSampler = sampler_factory<kStages>();

}  // namespace bp::wrong
