#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "selection.hpp"
#include "stages.hpp"

namespace bp::samplers {

namespace {

struct Strengths {
  float repeat;     // over the window of prompt and answer
  float presence;   // over the answer
  float frequency;  // over the answer
  size_t window;    // tokens; SIZE_MAX: all
};

class Penalties final : public Stage {
 public:
  explicit Penalties(const Strengths& strengths) : strengths_(strengths) {}
  [[nodiscard]] std::unique_ptr<Stage> clone() const override {
    return std::make_unique<Penalties>(*this);
  }

  void accept(std::span<const int32_t> tokens, uint32_t origin) override {
    for (const int32_t token : tokens) {
      const bool generated = origin == BP_TOKENS_GENERATED;
      history_.push_back({token, generated});
      Counts& counts = counts_[token];
      ++counts.in_window;
      counts.generated += generated ? 1 : 0;
      if (history_.size() > strengths_.window)
        leave(history_[history_.size() - strengths_.window - 1]);
    }
  }

  void rollback(uint32_t n) override {
    for (; n > 0 && !history_.empty(); --n) {
      const Entry last = history_.back();
      if (history_.size() > strengths_.window) {
        ++counts_[history_[history_.size() - strengths_.window - 1].token].in_window;
      }
      history_.pop_back();
      counts_[last.token].generated -= last.generated ? 1 : 0;
      leave(last);
    }
  }

  Status apply(bp_sample_row& row) override {
    if (is_dense(row)) {
      for (const auto& [token, counts] : counts_) {
        float& logit = row.logits[static_cast<size_t>(token)];
        logit = penalised(logit, counts);
      }
      return {};
    }
    for (bp_candidate& c : candidates(row)) {
      const auto found = counts_.find(c.id);
      if (found != counts_.end()) c.logit = penalised(c.logit, found->second);
    }
    row.order = BP_ORDER_NONE;
    return {};
  }

 private:
  struct Entry {
    int32_t token;
    bool generated;
  };
  struct Counts {
    uint32_t in_window = 0;
    uint32_t generated = 0;
  };

  // The token at that place is in the window no longer.
  void leave(const Entry& entry) {
    const auto found = counts_.find(entry.token);
    --found->second.in_window;
    if (found->second.in_window == 0 && found->second.generated == 0) counts_.erase(found);
  }

  [[nodiscard]] float penalised(float logit, const Counts& counts) const {
    if (counts.in_window > 0)
      logit = logit > 0 ? logit / strengths_.repeat : logit * strengths_.repeat;
    if (counts.generated == 0) return logit;
    return logit - strengths_.presence -
           strengths_.frequency * static_cast<float>(counts.generated);
  }

  Strengths strengths_;
  std::vector<Entry> history_;
  std::unordered_map<int32_t, Counts> counts_;  // of tokens in the window or the answer
};

}  // namespace

Result<std::unique_ptr<Stage>> make_penalties(const Params& fields, uint32_t) {
  const int64_t last_n = fields.get_int("repeat_last_n", 64);
  Strengths s{};
  s.repeat = last_n == 0 ? 1.0f : static_cast<float>(fields.get_float("repeat_penalty", 1.0));
  s.presence = static_cast<float>(fields.get_float("presence_penalty", 0.0));
  s.frequency = static_cast<float>(fields.get_float("frequency_penalty", 0.0));
  s.window = last_n < 0 ? SIZE_MAX : static_cast<size_t>(last_n);
  if (s.repeat == 1.0f && s.presence == 0.0f && s.frequency == 0.0f) {
    return std::unique_ptr<Stage>();
  }
  return std::unique_ptr<Stage>(std::make_unique<Penalties>(s));
}

}  // namespace bp::samplers
