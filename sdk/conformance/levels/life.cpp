// Objects that come and go: leaks, scarce memory, and what a plugin must leave as it found it.

#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>

#include "sdk/conformance/levels/levels.hpp"
#include "sdk/conformance/probe/allocations.hpp"
#include "sdk/conformance/probe/process_state.hpp"
#include "sdk/conformance/probe/sanitizer.hpp"
#include "sdk/conformance/support/llama_session.hpp"

namespace bp::conformance {

namespace {

constexpr uint32_t kCycles = 100;

bp_compile_options options_of(uint32_t n_threads) {
  bp_compile_options options = LlamaSession::default_options();
  options.n_threads = n_threads;
  return options;
}

// ---- cycles -------------------------------------------------------------------------------------

// Runs the cycle 100 times: the first 10 may fill caches, the other 90 must leave nothing.
void require_no_growth(const std::string& what, const std::function<void()>& cycle) {
  constexpr uint32_t first = 10;
  for (uint32_t i = 0; i < first; ++i) cycle();
  const ProcessCounts before = ProcessCounts::now();
  const int64_t bytes = allocated_bytes();
  for (uint32_t i = first; i < kCycles; ++i) cycle();
  const ProcessCounts after = ProcessCounts::settled(before.n_threads);
  const int64_t grown = allocated_bytes() - bytes;
  const std::string cycles = std::to_string(kCycles - first) + " times " + what;
  require(after.n_threads <= before.n_threads,
          cycles + " leaves " + std::to_string(after.n_threads - before.n_threads) +
              " threads: destroy must join them");
  require(after.n_files <= before.n_files,
          cycles + " leaves " + std::to_string(after.n_files - before.n_files) + " files open");
  constexpr int64_t bytes_per_cycle = 8;
  require(grown < bytes_per_cycle * (kCycles - first),
          cycles + " leaves " + std::to_string(grown) + " bytes allocated: a leak of about " +
              std::to_string(grown / (kCycles - first)) + " bytes each");
}

void backends_leave_nothing(Subject& subject) {
  const auto factory = subject.factory<bp_backend_factory>(BP_BACKEND_ID);
  require_no_growth("create and destroy",
                    [&] { const BackendSession session(factory, nullptr, &subject.params()); });
}

void executables_leave_nothing(Subject& subject) {
  const auto llama = make_llama(subject);
  require_no_growth("compile, a step and destroy_executable", [&] {
    LlamaSession session(subject, *llama, nullptr, options_of(2));
    (void)session.logits({1, 2, 3}, 0, session.blocks(1, 3));
  });
}

void steps_leave_nothing(Subject& subject) {
  const auto llama = make_llama(subject);
  LlamaSession session(subject, *llama, nullptr, options_of(1));
  uint32_t n = 0;
  require_no_growth("a step", [&] {
    const uint32_t length = 1 + n++ % 10;
    (void)session.logits(tokens_of(n, length), 0, session.blocks(1, length));
  });
}

void failures_leave_nothing(Subject& subject) {
  const auto llama = make_llama(subject);
  const auto factory = subject.factory<bp_backend_factory>(BP_BACKEND_ID);
  bp_op broken = *llama->program().ops[3];
  broken.kind = "com.example.nothing/1";
  std::vector<const bp_op*> ops(llama->program().ops,
                                llama->program().ops + llama->program().n_ops);
  ops[3] = &broken;
  bp_program program = llama->program();
  program.ops = ops.data();
  BackendSession session(factory, nullptr, &subject.params());
  require_no_growth("a compile that fails", [&] {
    require(!session.try_compile(program, options_of(1)).ok(), "an unknown op compiles");
  });
}

// ---- scarce memory ------------------------------------------------------------------------------

// One call at a time with the n-th allocation of the plugin failing, everything else undisturbed.
class ScarceMemory {
 public:
  ScarceMemory(Subject& subject, TinyLlama& llama)
      : table_(subject.factory<bp_backend_factory>(BP_BACKEND_ID)),
        params_(subject.params()),
        program_(llama.program()),
        allocators_(reinterpret_cast<const void*>(subject.query())),
        host_(make_growable<bp_host>()) {}
  ~ScarceMemory() { destroy(); }
  ScarceMemory(const ScarceMemory&) = delete;
  ScarceMemory& operator=(const ScarceMemory&) = delete;

  // Runs a whole life in which the n-th allocation fails. False where there are fewer.
  bool run(uint64_t n) {
    bool reached = false;
    {
      const FailingAllocation failing(n, allocators_);
      live();
      reached = failing.has_failed();
    }
    destroy();
    if (function_ == nullptr) return reached;
    const std::string where =
        std::string(function_) + " with its allocation " + std::to_string(n) + " failing";
    require(reached, std::string(function_) + " fails though memory is plenty: " + message());
    require(status_ == BP_OUT_OF_MEMORY, where + " must give OUT_OF_MEMORY (or succeed), gave " +
                                             std::to_string(status_) + " " + message());
    require(message()[0] != '\0', where + ": the error has no message");
    return true;
  }

 private:
  [[nodiscard]] std::string message() const {
    return {error_.message, strnlen(error_.message, sizeof error_.message)};
  }
  bool failed(const char* function, bp_status status) {
    status_ = status;
    if (status != BP_OK) function_ = function;
    return status != BP_OK;
  }
  // Allocates nothing itself.
  void live() {
    function_ = nullptr;
    error_ = {};
    const uint32_t n_blocks[] = {8};
    if (failed("create", table_.create(&host_, &params_, &backend_, &error_))) return;
    if (failed("check", check())) return;
    if (failed("compile", table_.compile(backend_, &program_, &options_, &executable_, &error_))) {
      return;
    }
    if (failed("memory", table_.memory(executable_, &info_, &error_))) return;
    if (failed("kv_allocate", table_.kv_allocate(executable_, n_blocks, 1, &error_))) return;
    if (failed("warm_up", table_.warm_up(executable_, nullptr, &error_))) return;
    uint64_t ticket = 0;
    if (failed("submit", table_.submit(executable_, &batch_, &ticket, &error_))) return;
    failed("collect", table_.collect(executable_, ticket, &error_));
  }
  bp_status check() {
    auto report = make_growable<bp_check_report>();
    report.obstacle = [](void*, uint32_t, bp_str) {};
    return table_.check(backend_, &program_, &report, &error_);
  }
  void destroy() {
    if (executable_ != nullptr) table_.destroy_executable(executable_);
    if (backend_ != nullptr) table_.destroy(backend_);
    executable_ = nullptr;
    backend_ = nullptr;
  }

  bp_backend_factory table_;
  const bp_params& params_;
  const bp_program& program_;
  Allocators allocators_;
  bp_host host_;
  bp_compile_options options_ = options_of(3);
  bp_memory_info info_ = make_growable<bp_memory_info>();
  BatchBuilder builder_ = LlamaSession::one({1, 2, 3}, 0, {1});
  bp_batch batch_ = builder_.build();
  bp_backend* backend_ = nullptr;
  bp_executable* executable_ = nullptr;
  bp_error error_{};
  const char* function_ = nullptr;  // the one that failed
  bp_status status_ = BP_OK;
};

void survives_scarce_memory(Subject& subject) {
  if (kSanitized) throw Skip("a sanitizer's allocator is in the way of failing allocations");
  const auto llama = make_llama(subject);
  ScarceMemory memory(subject, *llama);
  const auto start = std::chrono::steady_clock::now();
  constexpr uint64_t all_until = 3000;  // beyond that some: each life costs as much as the first
  uint64_t n = 1;
  int64_t bytes = 0;
  // The C library aborts where a plugin's thread_local data find no memory, so they get theirs
  // first.
  (void)memory.run(UINT64_MAX);
  for (; memory.run(n); n += n < all_until ? 1 : 1 + n / 100) {
    if (n == 1) bytes = allocated_bytes();
    if (std::chrono::steady_clock::now() - start > std::chrono::seconds(40)) break;
  }
  require(n > 1, "the backend allocates no memory through the C library: nothing was tested");
  const int64_t grown = allocated_bytes() - bytes;
  require(grown < static_cast<int64_t>(8 * n),
          std::to_string(n) + " lives in which an allocation failed leave " +
              std::to_string(grown) + " bytes allocated: a leak when memory is scarce");
}

// ---- what must stay as it was -------------------------------------------------------------------

// Compares the process before and after each call.
class Watched {
 public:
  template <class F>
  void call(const char* function, F&& f) {
    const ProcessState before = ProcessState::now();
    const bp_status status = f();
    const std::string changed = difference(before, ProcessState::now());
    require(changed.empty(), "after " + std::string(function) + " " + changed);
    require(status == BP_OK, std::string(function) + " fails: " + from_c(status, error).message());
  }
  bp_error error{};
};

void leaves_the_process_alone(Subject& subject) {
  const ProcessState untouched = ProcessState::now();
  const auto llama = make_llama(subject);
  const std::string changed = difference(untouched, ProcessState::now());
  require(changed.empty(), "after create, check and destroy " + changed);
  const bp_backend_factory table = subject.factory<bp_backend_factory>(BP_BACKEND_ID);
  const auto host = make_growable<bp_host>();
  const bp_compile_options options = options_of(2);
  Watched watched;
  bp_backend* backend = nullptr;
  bp_executable* executable = nullptr;
  bp_error* error = &watched.error;
  const auto destroyed = [](auto&& f) {
    f();
    return BP_OK;
  };
  watched.call("create", [&] { return table.create(&host, &subject.params(), &backend, error); });
  watched.call("check", [&] {
    auto report = make_growable<bp_check_report>();
    report.obstacle = [](void*, uint32_t, bp_str) {};
    return table.check(backend, &llama->program(), &report, error);
  });
  watched.call("compile", [&] {
    return table.compile(backend, &llama->program(), &options, &executable, error);
  });
  auto info = make_growable<bp_memory_info>();
  watched.call("memory", [&] { return table.memory(executable, &info, error); });
  const uint32_t n_blocks[] = {8};
  watched.call("kv_allocate", [&] { return table.kv_allocate(executable, n_blocks, 1, error); });
  watched.call("warm_up", [&] { return table.warm_up(executable, nullptr, error); });
  BatchBuilder builder = LlamaSession::one({1, 2, 3}, 0, {1});
  const bp_batch batch = builder.build();
  uint64_t ticket = 0;
  watched.call("submit", [&] { return table.submit(executable, &batch, &ticket, error); });
  watched.call("collect", [&] { return table.collect(executable, ticket, error); });
  watched.call("destroy_executable",
               [&] { return destroyed([&] { table.destroy_executable(executable); }); });
  watched.call("destroy", [&] { return destroyed([&] { table.destroy(backend); }); });
}

// Signals are for the host's threads.
void threads_block_signals(Subject& subject) {
  const auto llama = make_llama(subject);
  const auto before = thread_signal_masks();
  LlamaSession session(subject, *llama, nullptr, options_of(3));
  (void)session.logits({1, 2, 3}, 0, session.blocks(1, 3));
  uint32_t n_threads = 0;
  for (const auto& [id, mask] : thread_signal_masks()) {
    if (before.count(id) > 0) continue;
    ++n_threads;
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD}) {
      require((mask >> (signal - 1) & 1) == 1,
              std::string("a thread of the plugin does not block SIG") + sigabbrev_np(signal));
    }
  }
  if (n_threads == 0) throw Skip("the backend starts no threads");
}

// Two backends and two executables of each know nothing of each other.
void objects_are_independent(Subject& subject) {
  const auto llama = make_llama(subject);
  const Ints tokens = tokens_of(3, 12);
  auto first = std::make_unique<LlamaSession>(subject, *llama, nullptr, options_of(1));
  auto second = std::make_unique<LlamaSession>(subject, *llama, nullptr, options_of(1));
  const Floats expected = first->logits(tokens, 0, first->blocks(1, 12));
  const auto last = [&] { return first->logits({tokens.back()}, 11, first->blocks(1, 12)); };
  const Floats before = last();
  (void)second->logits(tokens_of(8, 12), 0, second->blocks(1, 12));
  require(same_bits(last(), before), "a step of one executable changes the cache of another");
  second.reset();
  require(same_bits(first->logits(tokens, 0, first->blocks(1, 12)), expected),
          "destroying one executable changes the results of another");
}

}  // namespace

void add_life_tests(Subject&, Tests& tests) {
  const auto add = [&](const char* name, const char* description, void (*body)(Subject&),
                       int64_t timeout_s = 60) {
    tests.push_back({name, "life", description, body, std::chrono::seconds(timeout_s)});
  };
  add("life-backends", "100 backends created and destroyed leave no memory, thread or file behind.",
      backends_leave_nothing);
  add("life-executables",
      "100 executables compiled, run and destroyed leave no memory, thread or file behind.",
      executables_leave_nothing);
  add("life-steps", "100 steps leave no memory behind.", steps_leave_nothing);
  add("life-failed-compiles", "100 compiles that fail leave nothing behind.",
      failures_leave_nothing);
  add("life-scarce-memory",
      "Whichever allocation of the plugin or of the C and C++ libraries fails, the call gives "
      "OUT_OF_MEMORY or succeeds, and nothing leaks.",
      survives_scarce_memory, 120);
  add("life-process",
      "No call changes the thread's floating-point mode or signal mask, nor the process's signal "
      "handlers, locale, working directory or environment.",
      leaves_the_process_alone);
  add("life-signals", "The plugin's own threads block signals.", threads_block_signals);
  add("life-independent", "Executables do not change each other's results.",
      objects_are_independent);
}

}  // namespace bp::conformance
