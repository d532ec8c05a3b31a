// Whole chains, as requests name them: distributions, order, the greedy path and its cost.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "core/engine/sampler_chain.hpp"
#include "stage_runner.hpp"

namespace bp::samplers::testing {
namespace {

using engine::SamplerChain;
using engine::SampleScratch;

const std::vector<std::string> kDefaultChain = {"penalties", "top_k", "typical_p",
                                                "top_p",     "min_p", "temperature"};

SamplerChain make_chain(const std::vector<std::string>& names, const plugin::ParamMap& fields,
                        uint32_t n_vocab) {
  auto chain = SamplerChain::create(sampler_set(), names, fields, n_vocab);
  EXPECT_TRUE(chain.ok()) << chain.status().message();
  return std::move(chain).value();
}

// Draws often and compares counts with probabilities (0: must not occur).
void expect_distribution(const SamplerChain& chain, const std::vector<float>& logits,
                         const std::vector<double>& probabilities, double bound) {
  constexpr uint32_t kDraws = 20000;
  SampleScratch scratch;
  std::vector<uint32_t> counts(logits.size(), 0);
  for (uint32_t i = 0; i < kDraws; ++i) {
    std::vector<float> row = logits;
    const auto token = chain.sample({row}, {11, 0, i}, scratch);
    ASSERT_TRUE(token.ok());
    ++counts[static_cast<size_t>(*token)];
  }
  double chi2 = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double expected = probabilities[i] * kDraws;
    if (expected == 0) {
      EXPECT_EQ(counts[i], 0u) << i;
    } else {
      chi2 += std::pow(counts[i] - expected, 2) / expected;
    }
  }
  EXPECT_LT(chi2, bound);
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature, size_t best) {
  std::vector<double> p(logits.size(), 0);
  std::multimap<double, size_t, std::greater<>> order;
  for (size_t i = 0; i < logits.size(); ++i) order.emplace(logits[i], i);
  double total = 0;
  for (const auto& [logit, i] : order) {
    if (best-- == 0) break;
    p[i] = std::exp(logit / temperature);
    total += p[i];
  }
  for (double& x : p) x /= total;
  return p;
}

const std::vector<float> kLogits = {0.3f, 2.0f, -1.0f, 1.5f, 0.9f, -2.5f};

TEST(ChainTest, NeutralChainDrawsFromSoftmax) {
  const auto chain = make_chain(kDefaultChain, {}, 6);
  expect_distribution(chain, kLogits, softmax(kLogits, 1, 6), 20.5);  // 5 df, p = 0.001
}

TEST(ChainTest, TemperatureAndTopK) {
  const auto chain = make_chain(kDefaultChain, {{"temperature", 0.6}, {"top_k", int64_t{3}}}, 6);
  expect_distribution(chain, kLogits, softmax(kLogits, 0.6, 3), 13.8);  // 2 df
  const auto hot = make_chain(kDefaultChain, {{"temperature", 3.0}}, 6);
  expect_distribution(hot, kLogits, softmax(kLogits, 3.0, 6), 20.5);
}

TEST(ChainTest, TheOrderOfStagesMatters) {
  // At a high temperature the nucleus of 0.6 has more tokens than before it.
  const plugin::ParamMap fields = {{"temperature", 5.0}, {"top_p", 0.6}};
  const auto cut_first = make_chain({"top_p", "temperature"}, fields, 6);
  const auto heat_first = make_chain({"temperature", "samplers/top_p"}, fields, 6);
  expect_distribution(cut_first, kLogits, softmax(kLogits, 5, 2), 10.9);   // 1 df
  expect_distribution(heat_first, kLogits, softmax(kLogits, 5, 3), 13.8);  // 2 df
}

// Where the greatest logits do not have the mass, top_p draws itself and knows what follows it.
TEST(ChainTest, TopPDrawsFromOpenRowsAsWhatFollowsItWould) {
  constexpr uint32_t kVocab = 3000, kDraws = 20000;
  const std::vector<float> logits = random_logits(kVocab, 3, 1.0f);
  const auto best_first = sorted(to_candidates(logits));
  SampleScratch scratch;
  const plugin::ParamMap all_fields[] = {
      {{"top_p", 0.95}},
      {{"top_p", 0.6}, {"temperature", 0.7}},
      {{"top_p", 0.9}, {"temperature", 3.0}},  // the mass is often missed
      {{"top_p", 0.3}, {"temperature", 1.5}},  // too small to be tried
      {{"top_p", 0.8}, {"min_p", 0.08}, {"temperature", 1.5}}};
  for (const plugin::ParamMap& fields : all_fields) {
    const auto number = [&](const char* name, double otherwise) {
      const auto it = fields.find(name);
      return it == fields.end() ? otherwise : std::get<double>(it->second);
    };
    double all = 0, sum = 0, total = 0;
    for (const bp_candidate& c : best_first) all += std::exp(static_cast<double>(c.logit));
    std::vector<double> p;  // best first
    const auto distance = [&](size_t i) {
      return static_cast<double>(best_first[i].logit) - static_cast<double>(best_first[0].logit);
    };
    for (size_t i = 0; sum < number("top_p", 1) * all; ++i) {
      sum += std::exp(static_cast<double>(best_first[i].logit));
      const bool stays = distance(i) >= std::log(number("min_p", 0));
      p.push_back(stays ? std::exp(distance(i) / number("temperature", 1)) : 0);
      total += p.back();
    }
    std::map<int32_t, size_t> rank;
    for (size_t i = 0; i < best_first.size(); ++i) rank[best_first[i].id] = i;
    constexpr size_t kGroups = 20;  // of ranks
    double expected[kGroups] = {}, counts[kGroups] = {};
    for (size_t i = 0; i < p.size(); ++i) expected[i * kGroups / p.size()] += kDraws * p[i] / total;
    const auto chain = make_chain(kDefaultChain, fields, kVocab);
    for (uint32_t i = 0; i < kDraws; ++i) {
      std::vector<float> row = logits;
      const auto token = chain.sample({row}, {11, 0, i}, scratch);
      ASSERT_TRUE(token.ok());
      const size_t at = rank.at(*token);
      ASSERT_LE(at, p.size()) << "one more may be kept, by rounding";
      if (at == p.size()) continue;
      ASSERT_GT(p[at], 0);
      counts[at * kGroups / p.size()] += 1;
    }
    double chi2 = 0;
    for (size_t g = 0; g < kGroups; ++g) {
      if (expected[g] > 0) chi2 += std::pow(counts[g] - expected[g], 2) / expected[g];
    }
    EXPECT_LT(chi2, 43.8);  // 19 degrees of freedom, p = 0.001
  }
}

TEST(ChainTest, TopPBreaksTiesByAscendingIdWhereItDraws) {
  const auto chain = make_chain(kDefaultChain, {{"top_p", 0.505}}, 100);
  SampleScratch scratch;
  int32_t last = 0;
  for (uint32_t i = 0; i < 5000; ++i) {
    std::vector<float> row(100, 2.0f);
    const auto token = chain.sample({row}, {7, 0, i}, scratch);
    ASSERT_TRUE(token.ok());
    last = std::max(last, *token);
  }
  EXPECT_EQ(last, 50);
}

TEST(ChainTest, ZeroTemperatureTakesTheBestAfterThePenalties) {
  const auto chain = make_chain(
      kDefaultChain,
      {{"temperature", 0.0}, {"presence_penalty", 2.0}, {"top_p", 0.5}, {"typical_p", 0.1}}, 6);
  EXPECT_TRUE(chain.greedy());
  SampleScratch scratch;
  std::vector<float> row = kLogits;
  EXPECT_EQ(*chain.sample({row}, {}, scratch), 1);
  const int32_t token = 1;
  ASSERT_TRUE(chain.accept({&token, 1}, BP_TOKENS_GENERATED).ok());
  row = kLogits;
  EXPECT_EQ(*chain.sample({row}, {}, scratch), 3);
}

TEST(ChainTest, AKnownGreatestLogitChangesNoToken) {
  constexpr uint32_t kVocab = 3000;
  SampleScratch scratch;
  const plugin::ParamMap all_fields[] = {
      {},
      {{"temperature", 0.0}},
      {{"temperature", 0.0}, {"presence_penalty", 2.0}},
      {{"top_p", 0.7}},
      {{"top_p", 0.9}, {"temperature", 0.8}},
      {{"temperature", 0.5}, {"top_k", int64_t{7}}},
      {{"min_p", 0.2}, {"temperature", 1.5}, {"frequency_penalty", 1.0}},
      {{"typical_p", 0.5}}};
  for (const auto& names : {kDefaultChain, {kDefaultChain.rbegin(), kDefaultChain.rend()}}) {
    for (const plugin::ParamMap& fields : all_fields) {
      const auto chain = make_chain(names, fields, kVocab);
      for (uint32_t i = 0; i < 20; ++i) {
        const std::vector<float> logits = random_logits(kVocab, i, 4);
        const auto best = static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
        // A penalty takes its lead away.
        ASSERT_TRUE(chain.accept({&best, 1}, BP_TOKENS_GENERATED).ok());
        std::vector<float> row = logits, known = logits;
        const auto expected = chain.sample({row}, {1, 0, i}, scratch);
        EXPECT_EQ(*chain.sample({known, best}, {1, 0, i}, scratch), *expected);
      }
    }
  }
}

// No row is looked at, however many logits it has.
TEST(ChainTest, AGreedyChainTakesTheGreatestLogitThatIsKnown) {
  const auto chain = make_chain(kDefaultChain, {{"temperature", 0.0}, {"top_p", 0.5}}, 6);
  SampleScratch scratch;
  std::vector<float> row = kLogits;
  EXPECT_EQ(*chain.sample({row, 4}, {}, scratch), 4);
}

TEST(ChainTest, ATinyTemperatureIsGreedyWithoutNan) {
  for (const double temperature : {1e-3, 1e-30, 1e-60, 1e-310}) {
    const auto chain = make_chain(kDefaultChain, {{"temperature", temperature}}, 6);
    SampleScratch scratch;
    std::vector<float> row = kLogits;
    EXPECT_EQ(*chain.sample({row}, {1, 2, 3}, scratch), 1) << temperature;
  }
}

TEST(ChainTest, AllForbiddenIsAnError) {
  SampleScratch scratch;
  for (const auto& fields : {plugin::ParamMap{},
                             {{"temperature", 0.0}},
                             {{"top_p", 0.5}},
                             {{"top_k", int64_t{2}}},
                             {{"typical_p", 0.5}},
                             {{"min_p", 0.1}}}) {
    std::vector<float> row(6, -std::numeric_limits<float>::infinity());
    EXPECT_FALSE(make_chain(kDefaultChain, fields, 6).sample({row}, {}, scratch).ok());
  }
}

TEST(ChainTest, UnknownAndUnreadFieldsAreNamed) {
  const auto error = [](const std::vector<std::string>& names, const plugin::ParamMap& fields) {
    return SamplerChain::create(sampler_set(), names, fields, 6).status().message();
  };
  EXPECT_NE(error({"topk"}, {}).find("top_k"), std::string::npos);
  EXPECT_NE(error({"other/top_k"}, {}).find("other/top_k"), std::string::npos);
  EXPECT_NE(error({"top_k"}, {{"min_p", 0.1}}).find("min_p"), std::string::npos);
  EXPECT_EQ(error({"top_k"}, {{"min_p", 0.0}}), "");
  EXPECT_NE(error({"top_k"}, {{"top_k", int64_t{-7}}}).find("top_k"), std::string::npos);
}

}  // namespace
}  // namespace bp::samplers::testing
