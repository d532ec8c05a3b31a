#pragma once
// One sequence of tokens straight on an executable, for `logits`, `perplexity` and `imatrix`:
// blocks 1, 2, 3, ..., neither scheduler nor sampler.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/cli/model_options.hpp"
#include "core/runtime/compiled_model.hpp"
#include "core/runtime/runtime.hpp"

namespace bp::cli {

class SingleSequence {
 public:
  static constexpr uint32_t kMaxStepTokens = 512;

  // What is done to a model before it is compiled. Answers how many tokens a step may have, at most
  // kMaxStepTokens.
  using Change = std::function<Result<uint32_t>(model::LoadedModel&)>;

  // Compiled for sequences of `context` tokens and `max_rows` rows of each output in a step, but no
  // more than it may have tokens.
  static Result<SingleSequence> create(const ModelOptions& options, uint32_t context,
                                       uint32_t max_rows, const Change& change = {});

  [[nodiscard]] const model::LoadedModel& model() const { return compiled_.parts->model; }
  [[nodiscard]] uint32_t max_step_tokens() const { return compiled_.limits.max_step_tokens; }
  [[nodiscard]] uint32_t n_vocab() const { return compiled_.parts->model.n_vocab; }
  [[nodiscard]] Status check(std::span<const int32_t> tokens) const;

  // Computes tokens[0, n) that follow the `position` ones computed last, or begins anew at 0, with
  // the logits behind the last n_rows of them. n_rows is at most max_step_tokens(). logits:
  // [n_rows, n_vocab].
  Status append(std::span<const int32_t> tokens, uint32_t position, uint32_t n_rows, float* logits);

  // Computes up to max_step_tokens() tokens, with all rows of all outputs of the program:
  // outputs: [program outputs][n tokens, output's width].
  Status append_all(std::span<const int32_t> tokens, uint32_t position,
                    std::vector<std::vector<float>>& outputs);
  [[nodiscard]] const bp_threads& threads() const { return *runtime_->threads(); }

 private:
  static constexpr int32_t kStateEntry = 1;

  SingleSequence(std::unique_ptr<runtime::Runtime> runtime, runtime::CompiledModel compiled,
                 uint32_t context);
  Status step_logits(std::span<const int32_t> tokens, uint32_t position, uint32_t n_rows,
                     float* logits);
  Status step(std::span<const int32_t> tokens, uint32_t position,
              std::span<const bp_output* const> outputs);

  std::unique_ptr<runtime::Runtime> runtime_;
  runtime::CompiledModel compiled_;
  std::vector<int32_t> blocks_;
  std::vector<bp_block_table> tables_;
};

}  // namespace bp::cli
