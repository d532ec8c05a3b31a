#pragma once
// How other threads reach the engine's thread.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backplane/status.hpp"
#include "core/engine/sequence.hpp"

namespace bp::engine {

class Mailbox {
 public:
  struct Post {
    SequenceList arrivals;  // first choices, in order of arrival
    std::vector<RequestId> cancelled;
    bool stopped = false;
  };

  explicit Mailbox(uint32_t max_queue) : max_queue_(max_queue) {}

  // [any-thread]
  Result<RequestId> submit(std::unique_ptr<Sequence> first_choice);
  // Why submit would fail now.
  Status check_room();
  void cancel(RequestId id);
  void drain();
  void stop();
  [[nodiscard]] bool idle() const { return n_requests_.load() == 0; }

  // Engine's thread. Waits for something to do if asked to.
  Post receive(bool wait);
  // A request has run for the first time, or has ended without: it waits no longer.
  void note_left_queue() { n_waiting_.fetch_sub(1); }
  void note_request_ended() { n_requests_.fetch_sub(1); }
  [[nodiscard]] uint32_t n_waiting() const { return n_waiting_.load(); }
  // From now on submit fails with this.
  void close(Status reason);

 private:
  [[nodiscard]] Status refusal() const;  // under mutex_

  const uint32_t max_queue_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Post post_;
  Status closed_;
  uint64_t last_id_ = 0;
  std::atomic<uint32_t> n_waiting_{0};
  std::atomic<uint32_t> n_requests_{0};
};

// The stop flags of the steps in flight, by request.
class InFlight {
 public:
  // Engine's thread; ids and flags [ids] stay valid until end. Who was stopped in a step before
  // that is still in flight is so in this one.
  void begin(const std::vector<RequestId>& ids, uint32_t* flags);
  void end(const uint32_t* flags);
  void clear();
  // [any-thread]
  void stop(RequestId id);

 private:
  struct Step {
    std::span<const RequestId> ids;
    uint32_t* flags;
    void stop(RequestId id) const;
  };
  std::mutex mutex_;
  std::vector<Step> steps_;
};

}  // namespace bp::engine
