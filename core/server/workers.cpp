#include "core/server/workers.hpp"

#include <exception>
#include <utility>

#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>

namespace bp::server {

namespace {

constexpr size_t kThreads = 2;

}  // namespace

Workers::Workers() : pool_(std::make_unique<boost::asio::thread_pool>(kThreads)) {}

Workers::~Workers() {
  stop();
}

void Workers::post(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (pool_ == nullptr) return;
  boost::asio::post(*pool_, [work = std::move(work)] { run_work(work); });
}

void Workers::stop() {
  std::unique_ptr<boost::asio::thread_pool> pool;
  {
    const std::lock_guard lock(mutex_);
    if (pool_ != nullptr) pool_->stop();
    pool = std::move(pool_);
  }
  // It ends here, without the lock: what is being done may post.
}

void run_work(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& e) {
    spdlog::error("a request failed: {}", e.what());
  }
}

}  // namespace bp::server
