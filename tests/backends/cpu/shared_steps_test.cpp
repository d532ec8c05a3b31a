// Workers that share the items of a step: several sequences at once, prompts
// and single tokens in turn, by one worker and by several.

#include <gtest/gtest.h>

#include <numeric>

#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"
#include "sdk/conformance/support/tiny_llama.hpp"
#include "tests/backends/cpu/isa_backends.hpp"

namespace bp::test {
namespace {

using namespace conformance;

constexpr uint32_t kSequences = 3, kPrompt = 70, kDecodes = 4;

// The logits of each sequence's last token, step after step.
std::vector<float> logits(const NamedFactory& backend, bp_dtype dtype, uint32_t n_threads) {
  TinyLlama llama(dtype);
  BackendSession session(*backend.factory);
  bp_compile_options options = BackendSession::default_options();
  options.n_threads = n_threads;
  session.compile(llama.program(), options, 2 * kSequences + 1);
  std::vector<float> all;
  for (uint32_t first = 0; first < kPrompt + kDecodes; first = std::max(kPrompt, first + 1)) {
    const uint32_t n = first == 0 ? kPrompt : 1;
    BatchBuilder batch;
    std::vector<uint32_t> last;
    for (uint32_t s = 0; s < kSequences; ++s) {
      std::vector<int32_t> tokens(n);
      std::iota(tokens.begin(), tokens.end(), static_cast<int32_t>(first + s));
      for (int32_t& token : tokens) token = token * 7 % static_cast<int32_t>(TinyLlama::kVocab);
      const auto block = static_cast<int32_t>(2 * s + 1);
      batch.add_sequence(tokens, static_cast<int32_t>(first), {block, block + 1});
      last.push_back((s + 1) * n - 1);
    }
    batch.add_output(0, last, TinyLlama::kVocab);
    const Status status = session.run(batch.build());
    EXPECT_TRUE(status.ok()) << status.message();
    all.insert(all.end(), batch.output(0).begin(), batch.output(0).end());
  }
  return all;
}

TEST(SharedSteps, GiveWhatOneWorkerGives) {
  const std::vector<NamedFactory> backends = cpu_factories();
  for (const NamedFactory& backend : {backends.front(), backends[backends.size() - 2]}) {
    for (const bp_dtype dtype : {BP_DTYPE_F32, BP_DTYPE_Q8_0}) {
      EXPECT_EQ(logits(backend, dtype, 3), logits(backend, dtype, 1)) << backend.name;
    }
  }
}

}  // namespace
}  // namespace bp::test
