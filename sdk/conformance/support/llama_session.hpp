#pragma once
// The test llama on the plugin's backend.

#include <cstdint>
#include <memory>
#include <vector>

#include "sdk/conformance/subject.hpp"
#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"
#include "sdk/conformance/support/tiny_llama.hpp"

namespace bp::conformance {

using Floats = std::vector<float>;
using Ints = std::vector<int32_t>;

// The llama with those composites in primitives that the plugin's backend lacks. Throws Skip where
// the backend lacks a primitive or the dtype too.
[[nodiscard]] std::unique_ptr<TinyLlama> make_llama(Subject& subject,
                                                    bp_dtype dtype = BP_DTYPE_F32);

// n tokens that depend on the seed.
[[nodiscard]] Ints tokens_of(uint32_t seed, uint32_t n);

class LlamaSession {
 public:
  static constexpr uint32_t kBlocks = 64, kVocab = TinyLlama::kVocab;

  // host may be null: a bare one. The llama outlives the session.
  LlamaSession(Subject& subject, TinyLlama& llama, const bp_host* host = nullptr,
               const bp_compile_options& options = default_options());

  // One thread, and blocks of 16 tokens where the backend agrees.
  [[nodiscard]] static bp_compile_options default_options();

  [[nodiscard]] BackendSession& backend() { return session_; }
  [[nodiscard]] uint32_t block_size() const { return block_size_; }
  // Enough blocks for n tokens, from `first` on.
  [[nodiscard]] Ints blocks(int32_t first, uint32_t n_tokens) const;

  [[nodiscard]] Status run(BatchBuilder& batch) { return session_.run(batch.build()); }
  [[nodiscard]] Status run(const bp_batch& batch) { return session_.run(batch); }

  // A batch of one sequence that asks for the logits of every token.
  [[nodiscard]] static BatchBuilder one(const Ints& tokens, int32_t first, const Ints& blocks);
  // Logits of every token; throws Failure where the step fails.
  [[nodiscard]] Floats logits(const Ints& tokens, int32_t first, const Ints& blocks);

 private:
  bp_backend_factory factory_;
  BackendSession session_;
  uint32_t block_size_ = 0;
};

// Bit for bit, NaN included.
[[nodiscard]] bool same_bits(const Floats& a, const Floats& b);
// As the same rows may differ in steps of other shapes.
[[nodiscard]] bool same_within_bounds(const Floats& expected, const Floats& found);

}  // namespace bp::conformance
