#include "core/engine/mailbox.hpp"

#include <fmt/format.h>

#include <utility>

namespace bp::engine {

Status Mailbox::refusal() const {
  if (!closed_.ok()) return closed_;
  if (n_waiting_.load() < max_queue_) return {};
  return cancelled(fmt::format("the queue is full: {} requests wait already", max_queue_));
}

Status Mailbox::check_room() {
  const std::scoped_lock lock(mutex_);
  return refusal();
}

Result<RequestId> Mailbox::submit(std::unique_ptr<Sequence> first_choice) {
  const std::scoped_lock lock(mutex_);
  BP_TRY(refusal());
  first_choice->request->id = ++last_id_;
  n_waiting_.fetch_add(1);
  n_requests_.fetch_add(1);
  post_.arrivals.push_back(std::move(first_choice));
  changed_.notify_one();
  return last_id_;
}

void Mailbox::cancel(RequestId id) {
  const std::scoped_lock lock(mutex_);
  post_.cancelled.push_back(id);
  changed_.notify_one();
}

void Mailbox::drain() {
  close(cancelled("the model takes no new requests: it is shutting down"));
}

void Mailbox::close(Status reason) {
  const std::scoped_lock lock(mutex_);
  if (closed_.ok()) closed_ = std::move(reason);
}

void Mailbox::stop() {
  drain();
  const std::scoped_lock lock(mutex_);
  post_.stopped = true;
  changed_.notify_one();
}

Mailbox::Post Mailbox::receive(bool wait) {
  std::unique_lock lock(mutex_);
  const auto has_post = [this] {
    return !post_.arrivals.empty() || !post_.cancelled.empty() || post_.stopped;
  };
  if (wait) changed_.wait(lock, has_post);
  Post taken = std::move(post_);
  post_ = {};
  post_.stopped = taken.stopped;
  return taken;
}

void InFlight::Step::stop(RequestId id) const {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == id) std::atomic_ref(flags[i]).store(1, std::memory_order_relaxed);
  }
}

void InFlight::begin(const std::vector<RequestId>& ids, uint32_t* flags) {
  const std::scoped_lock lock(mutex_);
  const Step begun{ids, flags};
  for (const Step& step : steps_) {
    for (size_t i = 0; i < step.ids.size(); ++i) {
      if (step.flags[i] != 0) begun.stop(step.ids[i]);
    }
  }
  steps_.push_back(begun);
}

void InFlight::end(const uint32_t* flags) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(steps_, [flags](const Step& step) { return step.flags == flags; });
}

void InFlight::clear() {
  const std::scoped_lock lock(mutex_);
  steps_.clear();
}

void InFlight::stop(RequestId id) {
  const std::scoped_lock lock(mutex_);
  for (const Step& step : steps_) step.stop(id);
}

}  // namespace bp::engine
