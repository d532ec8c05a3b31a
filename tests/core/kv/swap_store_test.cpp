// Room of host memory: taken, refused, given back.

#include <gtest/gtest.h>

#include <utility>

#include "core/kv/swap_store.hpp"

namespace bp::kv {
namespace {

TEST(SwapStore, TakesNoMoreThanItsRoom) {
  SwapStore store(100);
  const SwapStore::Images first = store.take(60, 7);
  EXPECT_EQ(first.bytes().size(), 60u);
  EXPECT_EQ(first.n_tokens(), 7u);
  EXPECT_TRUE(store.take(41, 1).empty());
  EXPECT_FALSE(store.take(40, 1).empty());
  EXPECT_EQ(store.used_bytes(), 60u);
}

TEST(SwapStore, RoomComesBackOnce) {
  SwapStore store(100);
  {
    SwapStore::Images images = store.take(100, 3);
    SwapStore::Images moved = std::move(images);
    EXPECT_TRUE(images.empty());  // NOLINT: what is left of it
    EXPECT_EQ(images.n_tokens(), 0u);
    EXPECT_EQ(store.used_bytes(), 100u);
    moved = store.take(0, 0);
    EXPECT_EQ(store.used_bytes(), 0u);
  }
  EXPECT_EQ(store.used_bytes(), 0u);
  EXPECT_FALSE(store.take(100, 1).empty());
}

TEST(SwapStore, WithoutRoomNothingIsKept) {
  SwapStore store(0);
  EXPECT_TRUE(store.take(1, 1).empty());
  EXPECT_TRUE(SwapStore::Images().empty());
}

}  // namespace
}  // namespace bp::kv
