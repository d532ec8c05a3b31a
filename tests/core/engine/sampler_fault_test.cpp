// A stage that writes over what is the host's fails its request, and nothing else.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <vector>

#include "backplane/sampler.hpp"
#include "core/engine/sampler_chain.hpp"

namespace bp::engine {
namespace {

std::function<void(bp_sample_row&)> stage_fault;

class WrongStage final : public Stage {
 public:
  [[nodiscard]] std::unique_ptr<Stage> clone() const override {
    return std::make_unique<WrongStage>();
  }
  Status apply(bp_sample_row& row) override {
    stage_fault(row);
    return {};
  }
};

Result<std::unique_ptr<Stage>> make_wrong(const Params&, uint32_t) {
  return std::unique_ptr<Stage>(std::make_unique<WrongStage>());
}

constexpr std::array<StageEntry, 1> kWrongStages = {
    {{{"wrong", BP_STAGE_DENSE | BP_STAGE_SPARSE | BP_STAGE_TRUNCATES, 0}, make_wrong}}};
constexpr bp_sampler_factory kWrongStageFactory = sampler_factory<kWrongStages>();

Result<int32_t> sample_with(std::function<void(bp_sample_row&)> wrong) {
  stage_fault = std::move(wrong);
  auto host = make_growable<bp_host>();
  plugin::StageManifest stage;
  stage.name = "wrong";
  SamplerSet set;
  set.plugins.push_back(
      {"wrong", plugin::SamplerHandle::create(&kWrongStageFactory, &host, {}).value(), {stage}});
  set.chain = {"wrong"};
  std::vector<float> logits = {1, 5, 2, 3};
  const auto chain = SamplerChain::create(set, {}, {}, 4);
  EXPECT_TRUE(chain.ok()) << chain.status().message();
  SampleScratch scratch;
  return chain->sample({logits, LogitsRow::kUnknown}, {7, 0, 3}, scratch);
}

TEST(SamplerFaults, MembersOfTheHostStayItsOwn) {
  std::vector<bp_candidate> own(8, {1, 2.0f});
  const std::function<void(bp_sample_row&)> faults[] = {
      [](bp_sample_row& row) { row.n_vocab = 1u << 30; },
      [](bp_sample_row& row) { row.n_vocab = 0xffffff, row.n_candidates = 0xfffff; },
      [](bp_sample_row& row) { row.candidates = nullptr, row.n_candidates = 4; },
      [&](bp_sample_row& row) { row.candidates = own.data(), row.n_candidates = 2; },
      [&](bp_sample_row& row) { row.logits = &own[0].logit; },
  };
  for (const auto& wrong : faults) {
    const auto token = sample_with(wrong);
    ASSERT_FALSE(token.ok());
    EXPECT_EQ(token.status().code(), Code::kInternal);
    EXPECT_THAT(token.status().message(),
                ::testing::HasSubstr("sampler stage wrong: changed what"));
  }
  const auto sound = sample_with([](bp_sample_row& row) {
    row.candidates[0] = {1, 5.0f};
    row.n_candidates = 1;
    row.logits = nullptr;  // as the row is sparse now
  });
  ASSERT_TRUE(sound.ok()) << sound.status().message();
  EXPECT_EQ(*sound, 1);
}

}  // namespace
}  // namespace bp::engine
