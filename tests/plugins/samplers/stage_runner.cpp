#include "stage_runner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include "backplane/best_candidates.hpp"
#include "backplane/plugin.hpp"
#include "core/plugin/library.hpp"

namespace bp::samplers::testing {

const engine::SamplerSet& sampler_set() {
  static const engine::SamplerSet set = [] {
    static const bp_host host = make_growable<bp_host>();
    const char* build = std::getenv("BACKPLANE_BUILD_DIR");
    const std::string folder = build == nullptr ? "." : build;
    auto manifest = plugin::read_manifest(folder + "/lib/backplane/samplers.plugin.yaml").value();
    auto library = plugin::Library::load(manifest).value();
    const auto* factory = library->factory<bp_sampler_factory>(BP_SAMPLER_ID);
    engine::SamplerSet made;
    made.plugins.push_back(
        {"samplers", plugin::SamplerHandle::create(factory, &host, {}).value(), manifest.stages});
    return made;
  }();
  return set;
}

std::optional<plugin::StageState> make_stage(const std::string& name,
                                             const plugin::ParamMap& fields, uint32_t n_vocab) {
  const engine::StageRef stage = sampler_set().find(name).value();
  const plugin::ParamMap all = sampler_set().fields(stage, fields).value();
  return stage.plugin->handle->make_state(stage.stage, all, n_vocab).value();
}

namespace {

std::vector<bp_candidate> run(const plugin::StageState& stage, std::vector<float>* logits,
                              std::vector<bp_candidate> candidates, uint32_t n_vocab,
                              const int32_t* greatest = nullptr) {
  auto row = make_growable<bp_sample_row>();
  row.n_vocab = n_vocab;
  row.n_candidates = static_cast<uint32_t>(candidates.size());
  candidates.resize(n_vocab);
  row.candidates = candidates.data();
  if (logits != nullptr) row.logits = logits->data();
  row.greatest = greatest;
  const Status status = stage.apply(row);
  EXPECT_TRUE(status.ok()) << status.message();
  if (row.n_candidates == 0 && logits != nullptr) return to_candidates(*logits);
  candidates.resize(row.n_candidates);
  if (row.order == BP_ORDER_DESCENDING) {
    EXPECT_EQ(ids(candidates), ids(sorted(candidates))) << "the order is not what the row says";
  }
  return candidates;
}

}  // namespace

std::vector<bp_candidate> run_dense(const plugin::StageState& stage, std::vector<float> logits) {
  const auto n = static_cast<uint32_t>(logits.size());
  if ((stage.info().flags & BP_STAGE_DENSE) == 0) {
    return run_sparse(stage, to_candidates(logits), n);
  }
  const auto greatest = static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
  std::vector<float> copy = logits;
  const auto left = run(stage, &logits, {}, n);
  if (!std::isfinite(copy[static_cast<size_t>(greatest)])) return left;
  const auto same = [](const bp_candidate& a, const bp_candidate& b) {
    return a.id == b.id && a.logit == b.logit;
  };
  EXPECT_TRUE(std::ranges::equal(left, run(stage, &copy, {}, n, &greatest), same))
      << "it depends on whether the host knows the greatest logit";
  return left;
}

std::vector<bp_candidate> run_sparse(const plugin::StageState& stage,
                                     std::vector<bp_candidate> candidates, uint32_t n_vocab) {
  return run(stage, nullptr, std::move(candidates), n_vocab);
}

std::vector<bp_candidate> sorted(std::vector<bp_candidate> candidates) {
  std::ranges::sort(candidates, is_better);
  return candidates;
}

std::vector<bp_candidate> to_candidates(const std::vector<float>& logits) {
  std::vector<bp_candidate> candidates;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isinf(logits[i])) candidates.push_back({static_cast<int32_t>(i), logits[i]});
  }
  return candidates;
}

std::vector<int32_t> ids(const std::vector<bp_candidate>& candidates) {
  std::vector<int32_t> found;
  for (const bp_candidate& c : candidates) found.push_back(c.id);
  return found;
}

std::vector<float> random_logits(uint32_t n, uint32_t seed, float deviation) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> logits(n);
  for (float& x : logits) {
    x = random() % 17 == 0 ? -std::numeric_limits<float>::infinity() : normal(random);
  }
  for (uint32_t i = 0; i < n / 5; ++i) logits[random() % n] = std::round(logits[random() % n]);
  return logits;
}

}  // namespace bp::samplers::testing
