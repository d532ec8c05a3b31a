#pragma once
// The threads on which requests are read and long answers in one piece are made.

#include <functional>
#include <memory>
#include <mutex>

#include <boost/asio/thread_pool.hpp>

namespace bp::server {

class Workers {
 public:
  Workers();
  ~Workers();

  // To be done on one of the threads; dropped after stop(). [any-thread]
  void post(std::function<void()> work);
  // Waits for what is being done and drops the rest, with all that it owns. Not from one of the
  // threads.
  void stop();

 private:
  std::mutex mutex_;
  std::unique_ptr<boost::asio::thread_pool> pool_;  // null once stopped
};

// Work that runs out of memory, or has a bug, costs its request and nothing else: what it throws is
// logged, and the exchange that it drops ends the answer.
void run_work(const std::function<void()>& work);

}  // namespace bp::server
