#pragma once
// One sequence of tokens straight on an executable, for `logits` and `perplexity`: blocks 1, 2, 3,
// ..., neither scheduler nor sampler.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/cli/model_options.hpp"
#include "core/runtime/compiled_model.hpp"

namespace bp::cli {

class SingleSequence {
 public:
  static constexpr uint32_t kMaxStepTokens = 512;

  // Compiled for sequences of `context` tokens and logits of `max_rows` of them in a step, on the
  // backend that `options` name or, where it is given, the one that `make_backend` makes.
  static Result<SingleSequence> create(const ModelOptions& options, uint32_t context,
                                       uint32_t max_rows,
                                       const runtime::MakeBackend& make_backend = {});

  [[nodiscard]] const model::LoadedModel& model() const { return compiled_.parts->model; }
  [[nodiscard]] uint32_t n_vocab() const { return compiled_.parts->model.n_vocab; }
  [[nodiscard]] Status check(std::span<const int32_t> tokens) const;

  // Computes tokens[0, n) that follow the `position` ones computed last, or begins anew at 0, with
  // the logits behind the last n_rows of them. n_rows is at most kMaxStepTokens. logits: [n_rows,
  // n_vocab].
  Status append(std::span<const int32_t> tokens, uint32_t position, uint32_t n_rows, float* logits);

 private:
  static constexpr int32_t kStateEntry = 1;

  SingleSequence(std::unique_ptr<runtime::Runtime> runtime, runtime::CompiledModel compiled,
                 uint32_t context);
  Status step(std::span<const int32_t> tokens, uint32_t position, uint32_t n_rows, float* logits);

  std::unique_ptr<runtime::Runtime> runtime_;
  runtime::CompiledModel compiled_;
  std::vector<int32_t> blocks_;
  std::vector<bp_block_table> tables_;
};

}  // namespace bp::cli
