#include "backends/cpu/weights/weight_arena.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace bp::cpu {
namespace {

WeightArena::Piece piece_of(WeightArena& arena, size_t n_bytes) {
  auto piece = arena.allocate(n_bytes);
  EXPECT_TRUE(piece.ok()) << piece.status().message();
  return std::move(piece).value();
}

uintptr_t address(const WeightArena::Piece& piece) {
  return reinterpret_cast<uintptr_t>(piece.get());
}

TEST(WeightArenaTest, SmallPiecesShareHugePages) {
  WeightArena arena;
  const auto first = piece_of(arena, 100);
  const auto second = piece_of(arena, 1000);
  EXPECT_EQ(address(first) % kHugePage, 0u);
  EXPECT_EQ(address(second), address(first) + 128);
}

TEST(WeightArenaTest, PiecesAreZerosAndDoNotOverlap) {
  WeightArena arena;
  std::vector<WeightArena::Piece> pieces;
  for (size_t i = 0; i < 40; ++i) {
    const size_t n = size_t{3} << 20;
    pieces.push_back(piece_of(arena, n));
    EXPECT_EQ(address(pieces.back()) % 64, 0u);
    EXPECT_EQ(pieces.back().get()[0], 0);
    EXPECT_EQ(pieces.back().get()[n - 1], 0);
    std::memset(pieces.back().get(), static_cast<int>(i + 1), 64);
    std::memset(pieces.back().get() + n - 64, static_cast<int>(i + 1), 64);
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_EQ(pieces[i].get()[0], i + 1);
    EXPECT_EQ(pieces[i].get()[(size_t{3} << 20) - 1], i + 1);
  }
}

TEST(WeightArenaTest, ALargePieceLeavesTheChunkToSmallOnes) {
  WeightArena arena;
  const auto small = piece_of(arena, 64);
  const auto large = piece_of(arena, WeightArena::kChunkBytes + 1);
  EXPECT_EQ(address(large) % kHugePage, 0u);
  EXPECT_EQ(address(piece_of(arena, 64)), address(small) + 64);
}

TEST(WeightArenaTest, AChunkLivesAsLongAsOneOfItsPieces) {
  WeightArena arena;
  auto first = piece_of(arena, 64);
  const auto second = piece_of(arena, 64);
  second.get()[0] = 7;
  first.reset();
  EXPECT_EQ(second.get()[0], 7);
  EXPECT_EQ(second.use_count(), 1);  // the arena itself keeps none
}

TEST(WeightArenaTest, RefusesWhatCannotBeMapped) {
  WeightArena arena;
  EXPECT_EQ(arena.allocate(size_t{1} << 60).status().code(), Code::kOutOfMemory);
  EXPECT_EQ(arena.allocate(SIZE_MAX - 64).status().code(), Code::kOutOfMemory);
}

}  // namespace
}  // namespace bp::cpu
