#include "sdk/conformance/support/llama_session.hpp"

#include <cstring>
#include <numeric>

#include "sdk/conformance/resources.hpp"
#include "sdk/conformance/support/compare.hpp"
#include "sdk/conformance/support/step_fixture.hpp"

namespace bp::conformance {

namespace {

// Kinds of composites among the ops that have obstacles, which are not in `inlined` yet.
std::set<std::string> new_kinds(TinyLlama& llama, const std::vector<OpSpec>& specs,
                                const std::vector<std::pair<uint32_t, std::string>>& obstacles,
                                const std::set<std::string>& inlined) {
  std::set<std::string> kinds;
  for (const auto& [op, sentence] : obstacles) {
    if (op >= llama.program().n_ops) continue;
    const std::string& kind = llama.builder().op_kind(op);
    for (const OpSpec& spec : specs) {
      if (spec.name == kind && !spec.body.empty() && inlined.count(kind) == 0) kinds.insert(kind);
    }
  }
  return kinds;
}

}  // namespace

std::unique_ptr<TinyLlama> make_llama(Subject& subject, bp_dtype dtype) {
  const auto factory = subject.factory<bp_backend_factory>(BP_BACKEND_ID);
  BackendSession session(factory, nullptr, &subject.params());
  auto llama = std::make_unique<TinyLlama>(dtype);
  auto obstacles = session.obstacles(llama->program());
  if (obstacles.empty()) return llama;
  const std::vector<OpSpec> specs = load_op_specs(op_specs_folder());
  std::set<std::string> inlined;
  while (!obstacles.empty()) {
    const auto kinds = new_kinds(*llama, specs, obstacles, inlined);
    if (kinds.empty()) {
      throw Skip("the backend cannot compile the test's llama: " + obstacles.front().second);
    }
    inlined.insert(kinds.begin(), kinds.end());
    llama = std::make_unique<TinyLlama>(dtype, 0, specs, inlined);
    obstacles = session.obstacles(llama->program());
  }
  return llama;
}

Ints tokens_of(uint32_t seed, uint32_t n) {
  Ints tokens(n);
  for (uint32_t i = 0; i < n; ++i) {
    tokens[i] = static_cast<int32_t>((seed * 13 + i * 7 + i * i) % TinyLlama::kVocab);
  }
  return tokens;
}

LlamaSession::LlamaSession(Subject& subject, TinyLlama& llama, const bp_host* host,
                           const bp_compile_options& options)
    : factory_(subject.factory<bp_backend_factory>(BP_BACKEND_ID)),
      session_(factory_, host, &subject.params()) {
  session_.compile(llama.program(), options, kBlocks);
  block_size_ = session_.memory().block_size;
  require(block_size_ > 0, "memory says that a block has 0 tokens");
}

bp_compile_options LlamaSession::default_options() {
  bp_compile_options options = BackendSession::default_options();
  options.max_context = 512;
  options.max_step_tokens = 256;
  options.max_output_rows = 128;
  options.n_threads = 1;
  options.block_size = 16;
  return options;
}

Ints LlamaSession::blocks(int32_t first, uint32_t n_tokens) const {
  Ints blocks((n_tokens + block_size_ - 1) / block_size_);
  std::iota(blocks.begin(), blocks.end(), first);
  return blocks;
}

BatchBuilder LlamaSession::one(const Ints& tokens, int32_t first, const Ints& blocks) {
  BatchBuilder batch;
  batch.add_sequence(tokens, first, blocks);
  std::vector<uint32_t> rows(tokens.size());
  std::iota(rows.begin(), rows.end(), 0u);
  batch.add_output(0, rows, kVocab);
  return batch;
}

Floats LlamaSession::logits(const Ints& tokens, int32_t first, const Ints& blocks) {
  BatchBuilder batch = one(tokens, first, blocks);
  const Status status = run(batch);
  require(status.ok(), "a step failed: " + status.message());
  require(batch.status().front() == BP_SEQ_OK,
          "seq_status of a good sequence is " + std::to_string(batch.status().front()));
  return batch.output(0);
}

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

bool same_within_bounds(const Floats& expected, const Floats& found) {
  return compare(expected, found, model_bound(BP_DTYPE_F32, BP_DTYPE_BF16)).empty();
}

}  // namespace bp::conformance
