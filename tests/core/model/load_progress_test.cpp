// Loading says how far it is and stops where it is asked to, where weights are quantised or read.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include <nlohmann/json.hpp>

#include "core/quantize/mixture.hpp"
#include "tests/core/model/support/backend_runner.hpp"
#include "tests/core/model/support/fake_model.hpp"
#include "tests/core/model/support/family_goldens.hpp"
#include "tests/support/progress_log.hpp"

namespace bp::model::test {
namespace {

using bp::testing::ProgressLog;

class LoadProgressTest : public ::testing::TestWithParam<const char*> {
 protected:
  LoadProgressTest() {
    fill_hugging_face_llama(fake_);
    const std::string mixture = GetParam();
    if (!mixture.empty()) fake_.quantize.mixture = *quantize::find_mixture(mixture);
    fake_.progress = log_.c();
  }

  FakeModel fake_{"huggingface"};
  ProgressLog log_;
};

TEST_P(LoadProgressTest, CountsAllElements) {
  const auto loaded = fake_.load(source_folders());
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  ASSERT_FALSE(log_.done.empty());
  EXPECT_TRUE(std::ranges::is_sorted(log_.done));
  EXPECT_EQ(log_.done.back(), log_.total);
  EXPECT_EQ(log_.total, loaded->n_parameters);
}

TEST_P(LoadProgressTest, StopsBeforeTheNextWeight) {
  log_.n_wanted = 3;
  const auto loaded = fake_.load(source_folders());
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.status().code(), Code::kCancelled);
  EXPECT_EQ(log_.done.size(), 3u);
  EXPECT_LE(fake_.n_reads.size(), 3u);
}

INSTANTIATE_TEST_SUITE_P(Mixtures, LoadProgressTest, ::testing::Values("", "Q8_0"));

// Each is read, and perhaps converted, before they become one weight.
TEST(LoadProgress, IsReportedBetweenPartsThatAreStacked) {
  const auto golden = family_golden("qwen3moe");
  FakeModel fake("huggingface");
  fill_family(fake, golden["huggingface"]["metadata"], golden["huggingface"]);
  ProgressLog log;
  fake.progress = log.c();
  const auto loaded = fake.load(source_folders());
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_GE(log.done.size(), loaded->file->tensors().size());
  EXPECT_EQ(log.done.back(), log.total);
}

}  // namespace
}  // namespace bp::model::test
