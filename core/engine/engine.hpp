#pragma once
// One model's engine: a queue of requests, one thread, one step function.

#include <cstdint>
#include <memory>

#include "backplane/status.hpp"
#include "core/engine/request.hpp"

namespace bp::engine {

struct EngineParts;  // parts.hpp: the loaded model, tokenizer, backend, scheduler and samplers

using RequestId = uint64_t;

// Counters and gauges, read without the engine's lock.
struct Stats;  // stats.hpp

class Engine {
 public:
  // Starts the engine's thread.
  static Result<std::unique_ptr<Engine>> create(EngineParts parts);
  ~Engine();  // cancels what still runs and joins

  // Queues a request. Fails with INVALID_ARGUMENT (prompt longer than the context, unknown stage or
  // field, token out of range), CANCELLED where the queue is full or the engine drains, or
  // DEVICE_LOST where it is not healthy. The sink is only called for requests that were queued.
  // [any-thread]
  Result<RequestId> submit(Request request);
  // Why submit would fail now, whatever the request. [any-thread]
  [[nodiscard]] Status check_room() const;
  // Ends all choices of a request with kCancelled within a step. Unknown ids are ignored.
  // [any-thread]
  void cancel(RequestId id);
  // No new requests from now on; those queued and running go on. [any-thread]
  void drain();
  [[nodiscard]] bool idle() const;  // nothing queued or running [any-thread]
  // False once the device is lost: all requests have failed, and so do new ones. [any-thread]
  [[nodiscard]] bool healthy() const;
  // The most tokens that prompt and answer may have together.
  [[nodiscard]] uint32_t context() const;
  [[nodiscard]] const Stats& stats() const;

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace bp::engine
