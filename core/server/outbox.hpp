#pragma once
// Calls on their way to the thread that runs an io_context, from any thread. Waking that thread
// costs more than most calls do, and it may take the waking one's core: so calls gather until
// send().

#include <functional>
#include <mutex>
#include <vector>

#include <boost/asio/io_context.hpp>

namespace bp::server {

class Outbox {
 public:
  // The outbox outlives what io runs.
  explicit Outbox(boost::asio::io_context& io) : io_(io) {}

  // To be run on io's thread, after what was put before. What it throws is logged.
  void put(std::function<void()> call);
  // Wakes the thread for all that was put, by whomever. Where that fails the next one does it.
  void send();

 private:
  void run();

  boost::asio::io_context& io_;
  std::mutex mutex_;
  std::vector<std::function<void()>> calls_;
  bool is_sent_ = false;  // run() is to come
};

}  // namespace bp::server
