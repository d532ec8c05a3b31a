#include "core/server/outbox.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace bp::server {
namespace {

using ::testing::ElementsAre;

class OutboxTest : public ::testing::Test {
 protected:
  void put(int n) {
    outbox_.put([this, n] { done_.push_back(n); });
  }

  boost::asio::io_context io_;
  Outbox outbox_{io_};
  std::vector<int> done_;
};

TEST_F(OutboxTest, WakesOnceForAllThatWasPut) {
  for (int i = 0; i < 4; ++i) put(i);
  EXPECT_EQ(io_.poll(), 0u);
  outbox_.send();
  outbox_.send();
  io_.restart();
  EXPECT_EQ(io_.poll(), 1u);
  EXPECT_THAT(done_, ElementsAre(0, 1, 2, 3));
}

TEST_F(OutboxTest, SendsNothingWhereNothingIs) {
  outbox_.send();
  EXPECT_EQ(io_.poll(), 0u);
}

TEST_F(OutboxTest, WhatComesMeanwhileIsSentAgain) {
  outbox_.put([this] {
    put(1);
    outbox_.send();
  });
  outbox_.send();
  io_.poll();
  EXPECT_THAT(done_, ElementsAre(1));
}

TEST_F(OutboxTest, OneThatFailsCostsNoOther) {
  put(1);
  outbox_.put([] { throw std::runtime_error("no memory"); });
  put(2);
  outbox_.send();
  io_.poll();
  EXPECT_THAT(done_, ElementsAre(1, 2));
}

}  // namespace
}  // namespace bp::server
