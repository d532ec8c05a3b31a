// How many workers compute where so many threads are asked for.

#include <gtest/gtest.h>

#include <limits>

#include "core/base/cpu_topology.hpp"
#include "core/runtime/runtime.hpp"

namespace bp::runtime {
namespace {

// Two cores of two hyperthreads.
base::CpuTopology four_processors(double quota = std::numeric_limits<double>::infinity()) {
  return {{{0, 0, 0}, {1, 1, 0}, {2, 0, 0}, {3, 1, 0}}, quota};
}

TEST(TeamSize, IsOneForEachCoreUnlessAsked) {
  EXPECT_EQ(team_size(0, four_processors()), 2u);
  EXPECT_EQ(team_size(1, four_processors()), 1u);
  EXPECT_EQ(team_size(3, four_processors()), 3u);
}

TEST(TeamSize, IsWhatRunsAtOnceAtMost) {
  EXPECT_EQ(team_size(8, four_processors()), 4u);
  EXPECT_EQ(team_size(8, four_processors(2.5)), 3u);
  EXPECT_EQ(team_size(8, four_processors(0.5)), 1u);
}

}  // namespace
}  // namespace bp::runtime
