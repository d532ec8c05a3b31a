// Which steps run as graphs, and what they are padded to.

#include "backends/cuda/step_graphs.hpp"

#include <gtest/gtest.h>

#include "backends/cuda/emulator/emulated_device.hpp"

namespace bp::cuda {
namespace {

TEST(GraphSizes, AscendToTheMostAndPadLittle) {
  for (const uint32_t most : {1u, 2u, 7u, 8u, 100u, 256u, 512u, 4000u}) {
    const auto sizes = graph_sizes(most);
    EXPECT_EQ(sizes.front(), 1u);
    EXPECT_EQ(sizes.back(), std::min(most, 512u));
    EXPECT_LE(sizes.size(), 40u);
    for (size_t i = 1; i < sizes.size(); ++i) {
      EXPECT_LT(sizes[i - 1], sizes[i]);
      EXPECT_LE(sizes[i], std::max(2 * sizes[i - 1], 16u));
      const bool is_last = i + 1 == sizes.size();
      if (sizes[i - 1] >= 64 && !is_last) {
        EXPECT_LE(8 * (sizes[i] - sizes[i - 1]), sizes[i - 1]);
      }
    }
  }
  EXPECT_TRUE(graph_sizes(0).empty());
}

class Graphs : public testing::Test {
 protected:
  Graphs() {
    most_.n_tokens = 64;
    most_.n_output_rows.fill(12);
    most_.n_samples = 9;
    plan_.stages.push_back({"op \"counted\"", [this](const StageContext& c) {
                              captured_.push_back(c.shape);
                              return Status();
                            }});
  }
  Status capture(uint32_t max_sequences) {
    for (const StepShape& shape : graph_shapes(most_, max_sequences)) {
      BP_TRY(graphs_.capture(
          plan_, {*stream_, nullptr, plan_.buffers, nullptr, nullptr, kv_, states_, shape}));
    }
    return {};
  }
  static StepShape decode_of(uint32_t n_tokens, uint32_t n_rows) {
    StepShape shape;
    shape.n_tokens = shape.n_seqs = n_tokens;
    shape.n_output_rows[0] = n_rows;
    shape.is_decode = true;
    return shape;
  }

  emulator::EmulatedDevice device_{{emulator::Order::kForward, 1 << 20}};
  std::unique_ptr<Stream> stream_ = std::move(device_.make_stream()).value();
  KvCache kv_{{}, 0, 16, BP_DTYPE_F16, BP_DTYPE_F16};
  StateCache states_{{}};
  Plan plan_;
  StepShape most_;
  StepGraphs graphs_;
  std::vector<StepShape> captured_;
};

TEST_F(Graphs, OneForEachSizeUpToTheSequences) {
  ASSERT_TRUE(capture(20).ok());
  ASSERT_EQ(captured_.size(), 6u);  // 1, 2, 4, 8, 16, 20
  EXPECT_EQ(captured_.back().n_tokens, 20u);
  EXPECT_EQ(captured_.back().n_output_rows[0], 12u);
  EXPECT_EQ(captured_[2].n_output_rows[0], 4u);
  EXPECT_EQ(captured_.back().n_samples, 9u);
  EXPECT_EQ(captured_[2].n_samples, 4u);
}

TEST_F(Graphs, StepsArePaddedToTheNextSize) {
  ASSERT_TRUE(capture(20).ok());
  for (const auto& [n, padded] : {std::pair{1u, 1u}, {3u, 4u}, {8u, 8u}, {9u, 16u}, {17u, 20u}}) {
    const auto match = graphs_.find(decode_of(n, 1));
    ASSERT_NE(match.graph, nullptr) << n;
    EXPECT_EQ(match.shape.n_tokens, padded);
  }
}

TEST_F(Graphs, OtherStepsHaveNone) {
  ASSERT_TRUE(capture(20).ok());
  EXPECT_EQ(graphs_.find(decode_of(21, 1)).graph, nullptr);
  EXPECT_EQ(graphs_.find(decode_of(20, 13)).graph, nullptr);
  StepShape sampled = decode_of(20, 12);
  sampled.n_samples = 10;
  EXPECT_EQ(graphs_.find(sampled).graph, nullptr);
  StepShape prefill = decode_of(5, 1);
  prefill.is_decode = false;
  const auto match = graphs_.find(prefill);
  EXPECT_EQ(match.graph, nullptr);
  EXPECT_EQ(match.shape.n_tokens, 5u);
}

TEST_F(Graphs, AnErrorLeavesTheStreamUsable) {
  plan_.stages.push_back({"op \"broken\" (nothing)", [](const StageContext&) {
                            return internal_error("kernel nothing failed");
                          }});
  EXPECT_EQ(capture(4).message(), "op \"broken\" (nothing): kernel nothing failed");
  ASSERT_TRUE(stream_->begin_capture().ok());
  EXPECT_TRUE(stream_->end_capture().ok());
}

TEST_F(Graphs, SoDoesAnException) {
  plan_.stages.push_back(
      {"op \"large\" (nothing)", [](const StageContext&) -> Status { throw std::bad_alloc(); }});
  EXPECT_THROW(static_cast<void>(capture(4)), std::bad_alloc);
  EXPECT_EQ(graphs_.find(decode_of(4, 4)).graph, nullptr);
  ASSERT_TRUE(stream_->begin_capture().ok());
  EXPECT_TRUE(stream_->end_capture().ok());
}

}  // namespace
}  // namespace bp::cuda
