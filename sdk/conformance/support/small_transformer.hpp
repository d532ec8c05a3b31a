#pragma once
// A transformer of three layers with random weights: grouped heads, biases, rope, and on request a
// layer with a window and a KV group of its own. Outputs: logits, and the hidden states before
// them.

#include <set>
#include <string>
#include <vector>

#include "sdk/conformance/support/ops/op_writer.hpp"

namespace bp::conformance {

struct TransformerShape {
  bp_dtype weights = BP_DTYPE_F32;
  uint32_t window = 0;  // of the middle layer; 0: none
  uint64_t seed = 1;
  bool all_rows = false;  // logits of every token, before the rows asked for are selected
};

class SmallTransformer {
 public:
  static constexpr uint32_t kLayers = 3, kDim = 64, kHeads = 6, kKvHeads = 2, kHeadDim = 16,
                            kFf = 96, kVocab = 97;
  static constexpr int32_t kNanToken = kVocab - 1;     // its embedding is NaN
  static constexpr uint32_t kLogits = 0, kHidden = 1;  // program outputs

  // Composites of the kinds `inlined` stand as their bodies. `specs` are needed for that alone.
  SmallTransformer(const TransformerShape& shape, const std::vector<OpSpec>& specs,
                   const std::set<std::string>& inlined);

  [[nodiscard]] ProgramBuilder& builder() { return builder_; }
  [[nodiscard]] const bp_program& program() { return builder_.build(); }

 private:
  uint32_t matrix(const std::string& name, uint64_t n_out, uint64_t n_in);
  uint32_t vector(const std::string& name, uint64_t n, float mean);
  void add_embedding();
  uint32_t add_norm(const std::string& name);
  void add_attention(const std::string& prefix, uint32_t layer, uint32_t x);
  void add_mlp(const std::string& prefix, uint32_t x);
  void add_head();

  TransformerShape shape_;
  ProgramBuilder builder_;
  OpWriter writer_;
  uint32_t x_ = BP_NONE, delta_ = BP_NONE, inv_freq_ = BP_NONE;
};

}  // namespace bp::conformance
