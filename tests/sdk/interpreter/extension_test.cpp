// The interpreter on a host's team of threads, and as a base class.

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "backplane/reference/backend.hpp"
#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"
#include "sdk/conformance/support/reference_factory.hpp"
#include "sdk/conformance/support/tiny_llama.hpp"

namespace bp::test {
namespace {

using namespace conformance;

std::vector<float> logits(BackendSession& session, uint32_t n) {
  BatchBuilder batch;
  std::vector<int32_t> tokens;
  for (uint32_t i = 0; i < n; ++i)
    tokens.push_back(static_cast<int32_t>(i * 3 % TinyLlama::kVocab));
  batch.add_sequence(tokens, 0, {1, 2, 3, 4, 5, 6, 7, 8});
  batch.add_output(0, {0, n - 1}, TinyLlama::kVocab);
  const Status status = session.run(batch.build());
  EXPECT_TRUE(status.ok()) << status.message();
  return batch.output(0);
}

// Three threads for each call.
struct SpawningTeam {
  SpawningTeam() {
    threads.n_threads = 3;
    threads.user = this;
    threads.run_team = [](void* user, uint32_t n, auto fn, void* argument) {
      ++static_cast<SpawningTeam*>(user)->n_calls;
      const uint32_t n_workers = n == 0 ? 3 : std::min(n, 3u);
      std::vector<std::thread> workers;
      for (uint32_t w = 0; w < n_workers; ++w) {
        workers.emplace_back([=] { fn(argument, w, n_workers, nullptr); });
      }
      for (std::thread& worker : workers) worker.join();
    };
    host.user = this;
    host.get_extension = [](void* user, const char* id) -> const void* {
      const bool known = std::strcmp(id, BP_THREADS_ID) == 0;
      return known ? &static_cast<SpawningTeam*>(user)->threads : nullptr;
    };
  }

  bp_threads threads = make_growable<bp_threads>();
  bp_host host = make_growable<bp_host>();
  std::atomic<uint32_t> n_calls = 0;
};

TEST(Threads, ChangeNoBit) {
  TinyLlama model;
  BackendSession alone(kReference);
  alone.compile(model.program(), BackendSession::default_options(), 32);
  const auto expected = logits(alone, 100);

  SpawningTeam team;
  BackendSession threaded(kReference, &team.host);
  threaded.compile(model.program(), BackendSession::default_options(), 32);
  EXPECT_EQ(logits(threaded, 100), expected);
  EXPECT_GT(team.n_calls, 0u);
}

// Multiplies what lm_head gives by 2.
class DoublingExecutable : public reference::ReferenceExecutable {
 public:
  using ReferenceExecutable::ReferenceExecutable;

 protected:
  Status run_op(const reference::OpCall& call) override {
    BP_TRY(ReferenceExecutable::run_op(call));
    if (call.kind() != BP_OP_LM_HEAD) return {};
    for (float& value : call.output(0).all()) value *= 2;
    return {};
  }
};

class DoublingBackend : public reference::ReferenceBackend {
 public:
  using ReferenceBackend::ReferenceBackend;
  static Result<std::unique_ptr<Backend>> create(const Host& host, const Params& params) {
    BP_ASSIGN(const reference::Settings settings, reference::read_settings(params));
    return std::unique_ptr<Backend>(std::make_unique<DoublingBackend>(host, settings));
  }

 protected:
  std::unique_ptr<reference::ReferenceExecutable> make_executable(
      const bp_program& program, const bp_compile_options& options) override {
    return std::make_unique<DoublingExecutable>(host(), program, options);
  }
};

TEST(Overriding, ASingleOpIsEnoughForABackend) {
  static constexpr bp_backend_factory kDoubling = backend_factory<DoublingBackend>();
  TinyLlama model;
  BackendSession plain(kReference), doubling(kDoubling);
  plain.compile(model.program(), BackendSession::default_options(), 32);
  doubling.compile(model.program(), BackendSession::default_options(), 32);
  auto expected = logits(plain, 9);
  for (float& value : expected) value *= 2;
  EXPECT_EQ(logits(doubling, 9), expected);
}

}  // namespace
}  // namespace bp::test
