#include "core/server/workers.hpp"

#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <stdexcept>
#include <thread>

namespace bp::server {
namespace {

TEST(Workers, WorkThatFailsCostsNoOther) {
  Workers workers;
  std::latch done(1);
  std::thread::id thread;
  workers.post([] { throw std::runtime_error("no memory"); });
  workers.post([&] {
    thread = std::this_thread::get_id();
    done.count_down();
  });
  done.wait();
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(Workers, DropWhatWaitsAndWhatComesOnceStopped) {
  Workers workers;
  std::latch working(2), go_on(1);
  for (int i = 0; i < 2; ++i) {
    workers.post([&] {
      working.count_down();
      go_on.wait();
    });
  }
  working.wait();
  bool is_done = false;
  auto waits = std::make_shared<int>();
  const std::weak_ptr<int> waiting = waits;
  workers.post([&is_done, waits = std::move(waits)] { is_done = true; });
  std::thread stopping([&] { workers.stop(); });
  // What comes is dropped from the moment on in which nothing that waits begins any more.
  for (bool is_stopped = false; !is_stopped;) {
    auto comes = std::make_shared<int>();
    const std::weak_ptr<int> coming = comes;
    workers.post([comes = std::move(comes)] {});
    is_stopped = coming.expired();
  }
  go_on.count_down();
  stopping.join();
  EXPECT_FALSE(is_done);
  EXPECT_TRUE(waiting.expired());
}

}  // namespace
}  // namespace bp::server
