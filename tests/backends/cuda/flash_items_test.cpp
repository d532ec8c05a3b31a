// Which blocks attention has: every query and position is in one, and parts of long contexts have a
// place each for their partial sums.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "backends/cuda/emulator/emulated_device.hpp"
#include "backends/cuda/kernels/flash.hpp"

namespace bp::cuda {
namespace {

struct Sequence {
  uint32_t context, n_tokens;  // before the step, and new
};

struct Setting {
  uint32_t tokens_of_tile = 8, n_slots = 33, n_padding = 0, window = 0, is_causal = 1;
};

struct Listed {
  std::vector<FlashItem> items;
  std::vector<FlashSplits> splits;
};

Listed listed(const std::vector<Sequence>& sequences, const Setting& setting) {
  const auto n_seqs = static_cast<uint32_t>(sequences.size());
  std::vector<int32_t> positions;
  std::vector<uint32_t> query_start = {0}, context_len;
  for (const Sequence& s : sequences) {
    for (uint32_t t = 0; t < s.n_tokens; ++t) {
      positions.push_back(static_cast<int32_t>(s.context + t));
    }
    query_start.push_back(static_cast<uint32_t>(positions.size()));
    context_len.push_back(s.context + s.n_tokens);
  }
  StepView step{};
  step.positions = positions.data();
  step.query_start = query_start.data();
  step.context_len = context_len.data();
  step.n_tokens = query_start.back();
  step.n_seqs = n_seqs;
  FlashItemsParams p;
  p.step = &step;
  p.n_rows = step.n_tokens + setting.n_padding;
  p.tokens_of_tile = setting.tokens_of_tile;
  p.n_slots = setting.n_slots;
  p.is_causal = setting.is_causal;
  p.window = setting.window;
  p.work.most_items = most_flash_items(p.n_rows, n_seqs, p.tokens_of_tile, p.n_slots);
  Listed out;
  out.items.resize(p.work.most_items);
  out.splits.resize(n_seqs + 1);
  uint32_t n_items = ~0u;
  p.work.items = out.items.data();
  p.work.splits = out.splits.data();
  p.work.n_items = &n_items;
  emulator::EmulatedStream stream(emulator::Order::kShuffled);
  EXPECT_TRUE(stream.launch(flash_items_kernel(), flash_items_geometry(p), p).ok());
  EXPECT_TRUE(stream.synchronize().ok());
  EXPECT_LE(n_items, p.work.most_items);
  out.items.resize(std::min<size_t>(n_items, out.items.size()));
  return out;
}

// Of each token, as often as it has parts; of each slot, at most one.
void expect_covers(const std::vector<Sequence>& sequences, const Setting& setting) {
  const Listed found = listed(sequences, setting);
  uint32_t n_tokens = 0;
  for (const Sequence& s : sequences) n_tokens += s.n_tokens;
  std::vector<uint32_t> n_times(n_tokens + setting.n_padding), slots(setting.n_slots);
  for (const FlashItem& item : found.items) {
    ASSERT_LE(item.sequence, sequences.size());
    ASSERT_LE(item.n_tokens, setting.tokens_of_tile);
    ASSERT_LT(item.split, item.n_splits);
    ASSERT_EQ(item.n_splits, found.splits[item.sequence].n_splits);
    for (uint32_t t = 0; t < item.n_tokens; ++t) {
      ++n_times.at(item.first_token + t);
      if (item.n_splits == 1) continue;
      ASSERT_EQ(item.slot, found.splits[item.sequence].slot);
      ++slots.at(item.slot + t * item.n_splits + item.split);
    }
  }
  uint32_t token = 0;
  for (size_t s = 0; s < sequences.size(); ++s) {
    for (uint32_t t = 0; t < sequences[s].n_tokens; ++t) {
      EXPECT_EQ(n_times[token++], found.splits[s].n_splits) << s;
    }
  }
  for (; token < n_times.size(); ++token) EXPECT_EQ(n_times[token], 1u);
  for (const uint32_t n : slots) EXPECT_LE(n, 1u);
}

std::vector<Sequence> decodes(uint32_t n, uint32_t context) {
  return std::vector<Sequence>(n, {context, 1});
}

TEST(FlashItems, CoverEveryTokenOnceForEachPart) {
  std::vector<Sequence> mixed = {{5000, 1}, {0, 300}, {70, 3}, {0, 0}, {100000, 8}, {40000, 9}};
  for (uint32_t i = 0; i < 300; ++i) mixed.push_back({i * 37 % 2000, 1 + i % 5});
  for (const uint32_t n_slots : {0u, 1u, 2u, 33u, 264u}) {
    for (const uint32_t tokens_of_tile : {1u, 8u, 64u}) {
      for (const uint32_t window : {0u, 500u}) {
        expect_covers(mixed, {tokens_of_tile, n_slots, 5, window});
        expect_covers({{100000, 1}}, {tokens_of_tile, n_slots, 0, window});
        expect_covers(decodes(16, 3000), {tokens_of_tile, n_slots, 4, window});
      }
    }
  }
  expect_covers({{0, 70}, {0, 3}}, {8, 33, 0, 0, 0});
}

TEST(FlashItems, ALongContextIsSplitBesideAPrompt) {
  const Listed found = listed({{0, 2000}, {100000, 1}}, {});
  EXPECT_EQ(found.splits[0].n_splits, 1u);
  EXPECT_EQ(found.splits[1].n_splits, 32u);
}

TEST(FlashItems, ALongContextIsSplitBesideManyShortOnes) {
  std::vector<Sequence> sequences = decodes(255, 500);
  sequences.push_back({100000, 1});
  const Listed found = listed(sequences, {});
  EXPECT_GE(found.splits[255].n_splits, 10u);
  for (uint32_t s = 0; s < 255; ++s) EXPECT_EQ(found.splits[s].n_splits, 1u);
}

TEST(FlashItems, FewEqualSequencesShareTheDevice) {
  for (const auto& [n, n_splits] :
       {std::pair{1u, 32u}, {2u, 15u}, {16u, 2u}, {33u, 1u}, {64u, 1u}}) {
    EXPECT_EQ(listed(decodes(n, 8191), {}).splits[0].n_splits, n_splits) << n;
  }
  EXPECT_EQ(listed(decodes(1, 8191), {8, 264}).splits[0].n_splits, kMaxFlashSplits);
  EXPECT_EQ(listed(decodes(1, 99), {}).splits[0].n_splits, 2u);
  EXPECT_EQ(listed(decodes(1, 99999), {8, 33, 0, 200}).splits[0].n_splits, 4u);
}

}  // namespace
}  // namespace bp::cuda
