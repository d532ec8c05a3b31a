#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "stage_runner.hpp"

namespace bp::samplers::testing {
namespace {

constexpr uint32_t kVocab = 12;

struct Fields {
  double repeat = 1, presence = 0, frequency = 0;
  int64_t last_n = 64;

  [[nodiscard]] plugin::ParamMap map() const {
    return {{"repeat_penalty", repeat},
            {"repeat_last_n", last_n},
            {"presence_penalty", presence},
            {"frequency_penalty", frequency}};
  }
};

struct Token {
  int32_t id;
  bool generated;
};

// The definition, word by word.
std::vector<float> oracle(std::vector<float> logits, const std::vector<Token>& history,
                          const Fields& f) {
  std::map<int32_t, int> generated, window;
  for (size_t i = 0; i < history.size(); ++i) {
    if (history[i].generated) ++generated[history[i].id];
    if (f.last_n < 0 || history.size() - i <= static_cast<size_t>(f.last_n))
      ++window[history[i].id];
  }
  for (size_t id = 0; id < logits.size(); ++id) {
    const auto token = static_cast<int32_t>(id);
    float& x = logits[id];
    const auto repeat = static_cast<float>(f.repeat);
    if (window.contains(token)) x = x > 0 ? x / repeat : x * repeat;
    if (!generated.contains(token)) continue;
    x -= static_cast<float>(f.presence) +
         static_cast<float>(f.frequency) * static_cast<float>(generated[token]);
  }
  return logits;
}

void expect_row(const plugin::StageState& stage, const std::vector<Token>& history, const Fields& f,
                const char* what) {
  std::vector<float> logits(kVocab);
  for (size_t i = 0; i < kVocab; ++i) logits[i] = static_cast<float>(i) - 5.25f;
  const auto expected = oracle(logits, history, f);
  const auto dense = run_dense(stage, logits);
  const auto sparse = run_sparse(stage, to_candidates(logits), kVocab);
  for (size_t i = 0; i < kVocab; ++i) {
    EXPECT_FLOAT_EQ(dense[i].logit, expected[i]) << what << " token " << i;
    EXPECT_FLOAT_EQ(sparse[i].logit, expected[i]) << what << " token " << i;
  }
}

TEST(PenaltiesTest, FollowTheDefinitionThroughAcceptRollbackAndClone) {
  const std::vector<Fields> cases = {{1.3, 0, 0, 64},  {1.3, 0, 0, 3},      {1.0, 0.5, 0, 64},
                                     {1.0, 0, 0.4, 0}, {1.7, 0.3, 0.2, -1}, {0.8, -0.5, 1.1, 5}};
  for (const Fields& f : cases) {
    std::mt19937 random(5);
    auto stage = make_stage("penalties", f.map(), kVocab);
    ASSERT_TRUE(stage.has_value());
    std::vector<Token> history;
    for (int step = 0; step < 60; ++step) {
      const bool generated = step > 20;
      if (random() % 4 == 0 && step > 22) {
        const auto n = static_cast<uint32_t>(random() % std::min<size_t>(history.size(), 4));
        ASSERT_TRUE(stage->rollback(n).ok());
        history.resize(history.size() - n);
      } else {
        const auto id = static_cast<int32_t>(random() % kVocab);
        ASSERT_TRUE(
            stage->accept({&id, 1}, generated ? BP_TOKENS_GENERATED : BP_TOKENS_PROMPT).ok());
        history.push_back({id, generated});
      }
      expect_row(*stage, history, f, "original");
      if (step % 9 != 0) continue;
      const auto copy = stage->clone();
      ASSERT_TRUE(copy.ok());
      expect_row(*copy, history, f, "clone");
    }
  }
}

}  // namespace
}  // namespace bp::samplers::testing
