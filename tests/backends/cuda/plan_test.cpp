// The workspace: buffers that live together lie apart, others share their place. Which steps'
// launches may overlap.

#include "backends/cuda/plan/plan.hpp"

#include <gtest/gtest.h>

#include "backplane/program.h"
#include "sdk/conformance/support/tiny_llama.hpp"
#include "tests/backends/cuda/launched.hpp"

namespace bp::cuda {
namespace {

Buffer buffer(uint32_t width, uint32_t first, uint32_t last) {
  return {BP_ROWS_TOKENS, 0, width, first, last};
}

TEST(Workspace, BuffersOfOneStageLieApart) {
  StepShape most;
  most.n_tokens = 7;
  std::vector<Buffer> buffers;
  for (uint32_t i = 0; i < 12; ++i) buffers.push_back(buffer(10 + 37 * i % 90, i / 2, i / 2 + 2));
  const size_t n_bytes = lay_out(buffers, most);
  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_LE(buffers[i].offset + buffers[i].n_bytes(most), n_bytes);
    EXPECT_EQ(buffers[i].offset % 256, 0u);
    for (size_t j = 0; j < i; ++j) {
      const bool together = buffers[i].first_stage <= buffers[j].last_stage &&
                            buffers[j].first_stage <= buffers[i].last_stage;
      const bool apart = buffers[i].offset + buffers[i].n_bytes(most) <= buffers[j].offset ||
                         buffers[j].offset + buffers[j].n_bytes(most) <= buffers[i].offset;
      EXPECT_TRUE(!together || apart) << i << " and " << j;
    }
  }
}

TEST(Workspace, AChainTakesTwoPlaces) {
  StepShape most;
  most.n_tokens = 4;
  std::vector<Buffer> buffers;
  for (uint32_t i = 0; i < 20; ++i) buffers.push_back(buffer(64, i, i + 1));
  EXPECT_EQ(lay_out(buffers, most), 2 * buffers[0].n_bytes(most));
}

TEST(Workspace, BuffersThatNobodyTouchesTakeNone) {
  StepShape most;
  most.n_tokens = 4;
  std::vector<Buffer> buffers{{BP_ROWS_TOKENS, 0, 64}};
  EXPECT_EQ(lay_out(buffers, most), 0u);
}

TEST(Plan, LaunchesOverlapInStepsOfOneToken) {
  conformance::TinyLlama llama;
  for (const uint32_t n : {1u, 2u, 9u}) {
    const NamingStream stream = launches_of(llama.program(), n);
    EXPECT_GT(stream.names.size(), 10u);
    EXPECT_EQ(stream.may_all_overlap, n == 1) << n;
  }
}

}  // namespace
}  // namespace bp::cuda
