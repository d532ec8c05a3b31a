#include "core/engine/engine.hpp"

#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "core/engine/make_sequence.hpp"
#include "core/engine/step.hpp"

namespace bp::engine {

struct Engine::Impl {
  explicit Impl(EngineParts parts) : state(std::move(parts)) {}

  void run();
  StepResult guarded_step();

  StepState state;
  std::atomic<bool> healthy{true};
  std::thread thread;
};

// What a stage throws (memory is short, above all) ends the requests at work, not the process.
StepResult Engine::Impl::guarded_step() {
  try {
    return run_step(state);
  } catch (const std::exception& e) {
    end_all(state, FinishReason::kError, fmt::format("the step failed: {}", e.what()));
    return StepResult::kGoOn;
  }
}

void Engine::Impl::run() {
  StepResult result = StepResult::kGoOn;
  while (result == StepResult::kGoOn) result = guarded_step();
  if (result == StepResult::kStopped) {
    end_all(state, FinishReason::kCancelled, {});
    return;
  }
  const std::string lost = "the device is lost; the model cannot go on";
  healthy = false;
  state.mailbox.close({Code::kDeviceLost, lost});
  end_all(state, FinishReason::kError, lost);
}

namespace {

Status check(const EngineParts& parts) {
  const Limits& limits = parts.limits;
  if (parts.n_vocab == 0) return invalid_argument("the model has no vocabulary");
  if (parts.block_size == 0) return invalid_argument("the backend has KV blocks of 0 tokens");
  if (parts.n_blocks < 2) return invalid_argument("the KV cache has no block");
  const uint32_t n_groups = parts.n_kv_groups + (parts.n_state_entries > 0 ? 1 : 0);
  if (parts.transfer && parts.transfer->n_groups() != n_groups) {
    return invalid_argument("the backend has images of another number of KV groups");
  }
  if (limits.context < 2) return invalid_argument("context: at least 2 tokens are needed");
  if (limits.max_sequences == 0 || limits.max_step_tokens == 0) {
    return invalid_argument("max_sequences and max_step_tokens must be at least 1");
  }
  if (limits.max_output_rows < limits.max_sequences) {
    return invalid_argument("max_output_rows must be at least max_sequences");
  }
  const auto chain = SamplerChain::create(parts.samplers, {}, {}, parts.n_vocab);
  return chain.status().with_context("sampler");
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(EngineParts parts) {
  BP_TRY(check(parts));
  // A tokenizer may have more tokens than rows have logits; those are never drawn.
  std::erase_if(parts.end_of_generation, [n = parts.n_vocab](int32_t id) {
    return id < 0 || static_cast<uint32_t>(id) >= n;
  });
  auto impl = std::make_unique<Impl>(std::move(parts));
  impl->thread = std::thread([raw = impl.get()] { raw->run(); });
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Engine::~Engine() {
  impl_->state.mailbox.stop();
  impl_->thread.join();
}

Result<RequestId> Engine::submit(Request request) {
  BP_TRY(check_room());  // before there is work and memory for it
  BP_ASSIGN(auto sequence,
            make_sequence(impl_->state.parts, impl_->state.context, std::move(request)));
  return impl_->state.mailbox.submit(std::move(sequence));
}

Status Engine::check_room() const {
  return impl_->state.mailbox.check_room();
}

void Engine::cancel(RequestId id) {
  // In this order: the flag alone would end nothing.
  impl_->state.mailbox.cancel(id);
  impl_->state.in_flight.stop(id);
}

void Engine::drain() {
  impl_->state.mailbox.drain();
}

bool Engine::idle() const {
  return impl_->state.mailbox.idle();
}

bool Engine::healthy() const {
  return impl_->healthy;
}

uint32_t Engine::context() const {
  return impl_->state.context;
}

const Stats& Engine::stats() const {
  return impl_->state.stats;
}

}  // namespace bp::engine
