#pragma once
// What a step of a compiled model costs at least: bytes that it reads, products of weights.

#include <cstdint>
#include <optional>
#include <vector>

#include "core/runtime/compiled_model.hpp"

namespace bp::cli {

class StepCost {
 public:
  // plan: where the backend has one.
  StepCost(const runtime::CompiledModel& compiled, const std::optional<bp_memory_plan>& plan);

  // Of a step of one token each of n_sequences, behind so many tokens of context: weights, once
  // where all tokens use them, the KV cache and states.
  [[nodiscard]] double decode_bytes(uint32_t n_sequences, double context) const;

  // Multiplications and additions with weights of a token, without or with its logits.
  [[nodiscard]] double prefill_operations() const { return operations_; }
  [[nodiscard]] double decode_operations() const { return operations_ + head_operations_; }

 private:
  // Matrices of which each token uses the same share: all, or some of the experts.
  struct Weights {
    double bytes = 0;
    double used = 1;

    // Of a step of n tokens that choose without regard to each other.
    [[nodiscard]] double bytes_of_step(uint32_t n_tokens) const;
  };
  // Of the KV cache, what layers read of a token of context, as long as their window holds it.
  struct Kv {
    double bytes;
    uint32_t window;  // 0: all of the context

    [[nodiscard]] double bytes_at(double context) const;
  };

  void add_weights(const model::ProgramParts& program);
  void scale_to_plan(const bp_memory_plan& plan, double file_bytes);

  std::vector<Weights> weights_;
  std::vector<Kv> kv_;
  double state_bytes_ = 0;  // read and written in a step, of a sequence
  double operations_ = 0, head_operations_ = 0;
};

}  // namespace bp::cli
