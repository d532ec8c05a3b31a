// Steps from many threads, and several at a time: the thread tags of the ABI, and workers that must
// not depend on each other's speed.

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <thread>

#include "sdk/conformance/levels/levels.hpp"
#include "sdk/conformance/probe/sanitizer.hpp"
#include "sdk/conformance/support/llama_session.hpp"
#include "sdk/conformance/support/perturbed_team.hpp"

namespace bp::conformance {

namespace {

constexpr uint32_t kVocab = TinyLlama::kVocab;

bp_compile_options options_of(uint32_t n_threads) {
  bp_compile_options options = LlamaSession::default_options();
  options.n_threads = n_threads;
  return options;
}

// Runs f(i) in n threads at once and throws what the first of them throws.
void at_once(uint32_t n, const std::function<void(uint32_t)>& f) {
  std::vector<std::exception_ptr> errors(n);
  std::vector<std::thread> threads;
  std::atomic<uint32_t> n_ready{0};
  for (uint32_t i = 0; i < n; ++i) {
    threads.emplace_back([&, i] {
      n_ready.fetch_add(1);
      while (n_ready.load() < n) std::this_thread::yield();
      try {
        f(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

// The logits of each step of one sequence: a prompt, then one token at a time.
std::vector<Floats> run_sequence(const std::function<Floats(const Ints&, int32_t)>& step,
                                 uint32_t seed, uint32_t n_prompt, uint32_t n_decodes) {
  const Ints tokens = tokens_of(seed, n_prompt + n_decodes);
  std::vector<Floats> all;
  all.push_back(step({tokens.begin(), tokens.begin() + n_prompt}, 0));
  for (uint32_t i = n_prompt; i < n_prompt + n_decodes; ++i) {
    all.push_back(step({tokens[i]}, static_cast<int32_t>(i)));
  }
  return all;
}

void require_same(const std::vector<Floats>& expected, const std::vector<Floats>& found,
                  const std::string& what) {
  for (size_t i = 0; i < expected.size(); ++i) {
    require(same_bits(expected[i], found[i]),
            what + ": step " + std::to_string(i) + " gives other logits");
  }
}

std::vector<Floats> run_in_place(LlamaSession& session, uint32_t seed) {
  const Ints blocks = session.blocks(1, 60);
  return run_sequence(
      [&](const Ints& tokens, int32_t first) { return session.logits(tokens, first, blocks); },
      seed, 40, 20);
}

void steps_rotate(Subject& subject) {
  const auto llama = make_llama(subject);
  LlamaSession still(subject, *llama, nullptr, options_of(2));
  const std::vector<Floats> expected = run_in_place(still, 1);
  LlamaSession session(subject, *llama, nullptr, options_of(2));
  const Ints blocks = session.blocks(1, 60);
  const auto found = run_sequence(
      [&](const Ints& tokens, int32_t first) {
        Floats logits;
        at_once(1, [&](uint32_t) { logits = session.logits(tokens, first, blocks); });
        return logits;
      },
      1, 40, 20);
  require_same(expected, found, "every step from another thread");
}

void backends_run_at_once(Subject& subject) {
  const auto llama = make_llama(subject);
  constexpr uint32_t n = 2;
  std::vector<std::vector<Floats>> expected(n);
  for (uint32_t i = 0; i < n; ++i) {
    LlamaSession alone(subject, *llama);
    expected[i] = run_in_place(alone, i);
  }
  (void)subject.params();
  for (uint32_t round = 0; round < 4; ++round) {
    at_once(n, [&](uint32_t i) {
      LlamaSession session(subject, *llama);
      require_same(expected[i], run_in_place(session, i), "two backends in two threads");
    });
  }
}

// A second executable of a session's backend.
class SecondExecutable {
 public:
  SecondExecutable(BackendSession& session, const bp_program& program,
                   const bp_compile_options& options)
      : table_(session.table()) {
    bp_error error{};
    const uint32_t n_blocks[] = {LlamaSession::kBlocks};
    bp_status status = table_.compile(session.backend(), &program, &options, &executable_, &error);
    if (status == BP_OK) status = table_.kv_allocate(executable_, n_blocks, 1, &error);
    if (status == BP_OK) status = table_.warm_up(executable_, nullptr, &error);
    if (status == BP_OK) return;
    if (executable_ != nullptr) table_.destroy_executable(executable_);
    throw Failure("a second executable of one backend: " + from_c(status, error).message());
  }
  ~SecondExecutable() { table_.destroy_executable(executable_); }
  SecondExecutable(const SecondExecutable&) = delete;
  SecondExecutable& operator=(const SecondExecutable&) = delete;

  [[nodiscard]] Floats logits(const Ints& tokens, int32_t first, const Ints& blocks) {
    BatchBuilder builder = LlamaSession::one(tokens, first, blocks);
    const bp_batch batch = builder.build();
    bp_error error{};
    uint64_t ticket = 0;
    bp_status status = table_.submit(executable_, &batch, &ticket, &error);
    if (status == BP_OK) status = table_.collect(executable_, ticket, &error);
    require(status == BP_OK, "a step failed: " + from_c(status, error).message());
    return builder.output(0);
  }

 private:
  const bp_backend_factory& table_;
  bp_executable* executable_ = nullptr;
};

void executables_run_at_once(Subject& subject) {
  const auto llama = make_llama(subject);
  LlamaSession first(subject, *llama);
  SecondExecutable second(first.backend(), llama->program(), LlamaSession::default_options());
  const Ints blocks = first.blocks(1, 32), a = tokens_of(1, 32), b = tokens_of(2, 32);
  const Floats expected_a = first.logits(a, 0, blocks), expected_b = second.logits(b, 0, blocks);
  constexpr uint32_t n_steps = kSanitized ? 40 : 300;
  at_once(2, [&](uint32_t i) {
    for (uint32_t step = 0; step < n_steps; ++step) {
      const Floats found = i == 0 ? first.logits(a, 0, blocks) : second.logits(b, 0, blocks);
      require(same_bits(found, i == 0 ? expected_a : expected_b),
              "two executables of one backend run in two threads: step " + std::to_string(step) +
                  " of one gives other logits, they share what they write");
    }
  });
}

void create_is_for_any_thread(Subject& subject) {
  const auto factory = subject.factory<bp_backend_factory>(BP_BACKEND_ID);
  at_once(4, [&](uint32_t) {
    for (int i = 0; i < 10; ++i) {
      const BackendSession session(factory, nullptr, &subject.params());
    }
  });
}

void workers_may_be_late(Subject& subject) {
  const auto llama = make_llama(subject);
  constexpr uint32_t n_threads = 4, n_rounds = 12;
  PerturbedTeam calm(n_threads, 0);
  std::vector<Floats> expected;
  {
    LlamaSession session(subject, *llama, &calm.host(), options_of(n_threads));
    expected = run_in_place(session, 1);
  }
  if (calm.n_shared_runs() == 0) throw Skip("the backend gives the host's team no work");
  PerturbedTeam late(n_threads, subject.options().seed + 1);
  LlamaSession session(subject, *llama, &late.host(), options_of(n_threads));
  for (uint32_t round = 0; round < n_rounds; ++round) {
    require_same(expected, run_in_place(session, 1),
                 "workers of the host's team that arrive late: a barrier is missing between what "
                 "one worker writes and another reads");
  }
}

// The host stops one of two sequences while steps run.
void stops_come_from_another_thread(Subject& subject) {
  const auto llama = make_llama(subject);
  LlamaSession session(subject, *llama);
  const Ints a = tokens_of(1, 60), b = tokens_of(2, 60);
  const Ints blocks_a = session.blocks(1, 60), blocks_b = session.blocks(20, 60);
  const Floats whole = session.logits(b, 0, blocks_b);
  const Floats expected(whole.end() - kVocab, whole.end());
  for (uint32_t round = 0; round < 40; ++round) {
    BatchBuilder builder;
    builder.add_sequence(a, 0, blocks_a);
    builder.add_sequence(b, 0, blocks_b);
    builder.add_output(0, {119}, kVocab);
    uint32_t stop[] = {0, 0};
    bp_batch batch = builder.build();
    batch.stop_seq = stop;
    std::thread stopper([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(round * 20));
      __atomic_store_n(&stop[0], 1u, __ATOMIC_RELAXED);
    });
    const Status status = session.run(batch);
    stopper.join();
    require(status.ok(), "stopping a sequence makes the step fail: " + status.message());
    const Ints& found = builder.status();
    require(found[0] == BP_SEQ_OK || found[0] == BP_SEQ_STOPPED,
            "seq_status of a sequence stopped in the middle is " + std::to_string(found[0]));
    require(found[1] == BP_SEQ_OK && same_within_bounds(expected, builder.output(0)),
            "stopping one sequence in the middle of a step changes another");
  }
}

}  // namespace

void add_threads_tests(Subject&, Tests& tests) {
  const auto add = [&](const char* name, const char* description, void (*body)(Subject&)) {
    tests.push_back({name, "threads", description, body, std::chrono::seconds(120)});
  };
  add("threads-rotating", "Steps from another thread each time give the same logits.",
      steps_rotate);
  add("threads-create", "Backends may be created in several threads at once.",
      create_is_for_any_thread);
  add("threads-two-backends", "Two backends at work in two threads do not disturb each other.",
      backends_run_at_once);
  add("threads-two-executables",
      "Two executables of one backend at work in two threads do not disturb each other.",
      executables_run_at_once);
  add("threads-late-workers", "Late workers of the host's team do not change a bit of the result.",
      workers_may_be_late);
  add("threads-stop", "stop_seq may be written while the step runs.",
      stops_come_from_another_thread);
}

}  // namespace bp::conformance
