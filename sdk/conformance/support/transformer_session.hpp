#pragma once
// The small transformer on a backend, step by step.

#include <memory>
#include <string>
#include <vector>

#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"
#include "sdk/conformance/support/compare.hpp"
#include "sdk/conformance/support/kv_transfer_client.hpp"
#include "sdk/conformance/support/small_transformer.hpp"

namespace bp::conformance {

using Tokens = std::vector<int32_t>;
using Blocks = std::vector<int32_t>;
using Floats = std::vector<float>;

// What one sequence does in a step.
struct SequenceStep {
  Tokens tokens;
  uint32_t first = 0;  // position of the first token
  Blocks blocks;       // of the first KV group; others hold blocks of the same count elsewhere
  // Tokens whose logits are wanted, counted from the first; all where `selects` is false.
  std::vector<uint32_t> rows = {};
  bool selects = false;
};

// The transformer with those composites as their bodies that check refuses. Throws Skip with the
// backend's sentence where it refuses more.
[[nodiscard]] std::unique_ptr<SmallTransformer> accepted_transformer(
    BackendSession& session, const TransformerShape& shape, const std::vector<OpSpec>& specs);

class TransformerSession {
 public:
  static constexpr uint32_t kBlocks = 96, kMaxContext = 2048;

  struct Options {
    TransformerShape shape;
    bp_dtype kv = BP_DTYPE_F32;  // of the KV cache
    uint32_t block_size = 16;    // proposed
    bool transfers = false;      // blocks move; Skip where the backend offers no such thing
  };

  // Throws Skip where the backend refuses the program or the types.
  TransformerSession(const bp_backend_factory& factory, const bp_params* params,
                     const std::vector<OpSpec>& specs, const Options& options);

  [[nodiscard]] uint32_t block_size() { return session_->memory().block_size; }

  struct Extras {
    std::vector<bp_block_op> block_ops = {};  // of the first group; done in the others likewise
    size_t table_padding = 0;
    std::vector<uint32_t> hidden_rows = {};  // token indices of the batch
    Blocks null_in_window = {};  // blocks whose entry in the windowed group is the null block
  };
  // The logits that each sequence asks for. Throws Failure where the step fails or breaks a rule.
  std::vector<Floats> step(const std::vector<SequenceStep>& sequences, const Extras& extras);
  std::vector<Floats> step(const std::vector<SequenceStep>& sequences) {
    return step(sequences, {});
  }
  // Of one sequence, all its rows.
  Floats logits(const Tokens& tokens, uint32_t first, const Blocks& blocks) {
    return step({{tokens, first, blocks}}).front();
  }
  // Of the last step that asked for them.
  [[nodiscard]] const Floats& hidden() const { return hidden_; }

  // Where the options want transfers.
  [[nodiscard]] const KvTransferClient& transfer() const { return *transfer_; }
  [[nodiscard]] uint32_t n_groups() const { return n_groups_; }
  // A sequence's blocks in a group.
  [[nodiscard]] Blocks blocks_of(uint32_t group, const Blocks& blocks) const {
    return tables(blocks, {})[group];
  }

 private:
  void compile(const bp_backend_factory& factory, const bp_params* params,
               const std::vector<OpSpec>& specs, const Options& options);
  [[nodiscard]] std::vector<Blocks> tables(const Blocks& blocks, const Extras& extras) const;

  std::unique_ptr<SmallTransformer> model_;
  std::unique_ptr<BackendSession> session_;
  std::unique_ptr<KvTransferClient> transfer_;
  uint32_t n_groups_;
  Floats hidden_;
};

}  // namespace bp::conformance
