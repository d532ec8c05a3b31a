#include "core/quantize/rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "backplane/dtype.hpp"
#include "backplane/plugin.hpp"
#include "tests/support/progress_log.hpp"

namespace bp::quantize {
namespace {

using bp::testing::ProgressLog;

class RowsTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kWidth = 96, kRows = 15001;

  RowsTest() : values_(kWidth * kRows) {
    for (size_t i = 0; i < values_.size(); ++i) values_[i] = static_cast<float>(i % 251) - 125;
  }
  [[nodiscard]] Rows rows() const {
    return {BP_DTYPE_F32, values_.data(), kWidth * sizeof(float), kRows, kWidth};
  }
  static std::vector<uint8_t> room() {
    return std::vector<uint8_t>(kRows * row_bytes(BP_DTYPE_Q8_0, kWidth));
  }

  std::vector<float> values_;
};

TEST_F(RowsTest, AreTheSameWhereProgressIsReported) {
  auto plain = room(), reported = room();
  ASSERT_TRUE(convert_rows(rows(), BP_DTYPE_Q8_0, {}, nullptr, plain.data()).ok());
  ProgressLog log;
  base::WorkProgress progress(log.c(), values_.size());
  ASSERT_TRUE(convert_rows(rows(), BP_DTYPE_Q8_0, {}, nullptr, reported.data(), &progress).ok());
  EXPECT_EQ(reported, plain);
  ASSERT_GT(log.done.size(), 2u);
  EXPECT_TRUE(std::ranges::is_sorted(log.done));
  EXPECT_EQ(log.done.back(), values_.size());
}

TEST_F(RowsTest, StopWhereTheyAreAskedTo) {
  auto out = room();
  ProgressLog log;
  log.n_wanted = 1;
  base::WorkProgress progress(log.c(), values_.size());
  const Status status = convert_rows(rows(), BP_DTYPE_Q8_0, {}, nullptr, out.data(), &progress);
  EXPECT_EQ(status.code(), Code::kCancelled);
  EXPECT_EQ(log.done.size(), 1u);
  EXPECT_EQ(std::ranges::count(out.end() - 1000, out.end(), 0), 1000) << "it went on to the end";
}

TEST_F(RowsTest, NameTheFirstRowAtFaultWhicheverReportItComesBefore) {
  for (const uint64_t row : {uint64_t{14000}, uint64_t{9000}}) values_[row * kWidth] = 1e20f;
  auto out = room();
  const Status status = convert_rows(rows(), BP_DTYPE_Q8_0, {}, nullptr, out.data());
  EXPECT_NE(status.message().find("row 9000"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace bp::quantize
