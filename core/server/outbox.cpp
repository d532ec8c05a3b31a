#include "core/server/outbox.hpp"

#include <exception>
#include <utility>

#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>

namespace bp::server {

void Outbox::put(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  calls_.push_back(std::move(call));
}

void Outbox::send() {
  {
    const std::lock_guard lock(mutex_);
    if (calls_.empty() || is_sent_) return;
    is_sent_ = true;
  }
  // Without the lock: the thread that wakes may run before this one goes on.
  try {
    boost::asio::post(io_, [this] { run(); });
  } catch (...) {
    const std::lock_guard lock(mutex_);
    is_sent_ = false;
    throw;
  }
}

void Outbox::run() {
  std::vector<std::function<void()>> calls;
  {
    const std::lock_guard lock(mutex_);
    calls.swap(calls_);
    is_sent_ = false;
  }
  for (const auto& call : calls) {
    try {
      call();
    } catch (const std::exception& e) {
      spdlog::error("a connection failed: {}", e.what());
    }
  }
}

}  // namespace bp::server
