// backplane logits: the logits behind the last of some tokens, straight from the executable.

#include <algorithm>
#include <cstdio>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backplane/plugin.hpp"
#include "core/cli/commands.hpp"
#include "core/config/config.hpp"
#include "core/config/kv_section.hpp"
#include "core/runtime/compiled_model.hpp"

namespace bp::cli {

namespace {

constexpr uint32_t kChunk = 512;

Status check_tokens(const std::vector<int32_t>& tokens, uint32_t n_vocab) {
  for (const int32_t token : tokens) {
    if (token < 0 || static_cast<uint32_t>(token) >= n_vocab) {
      return invalid_argument(
          fmt::format("token id {} is outside the vocabulary of {}", token, n_vocab));
    }
  }
  return {};
}

// One sequence in blocks 1, 2, 3, ..., computed in chunks; only the last row is wanted.
class LastRow {
 public:
  LastRow(const runtime::CompiledModel& compiled, std::span<const int32_t> tokens)
      : executable_(compiled.executable), tokens_(tokens) {
    const auto n_blocks =
        static_cast<uint32_t>((tokens.size() - 1) / compiled.memory.block_size + 1);
    blocks_.resize(n_blocks);
    std::iota(blocks_.begin(), blocks_.end(), 1);
    tables_.assign(compiled.memory.n_groups, bp_block_table{blocks_.data(), n_blocks, 0});
  }

  Status compute(std::vector<float>& logits) {
    for (size_t first = 0; first < tokens_.size(); first += kChunk) {
      const size_t n = std::min<size_t>(kChunk, tokens_.size() - first);
      BP_TRY(step(first, static_cast<uint32_t>(n), logits));
    }
    return {};
  }

 private:
  Status step(size_t first, uint32_t n, std::vector<float>& logits) {
    std::vector<int32_t> positions(n);
    std::iota(positions.begin(), positions.end(), static_cast<int32_t>(first));
    const uint32_t query_start[] = {0, n};
    const auto context_len = static_cast<uint32_t>(first + n);
    const uint32_t last = n - 1;
    auto output = make_growable<bp_output>();
    output.n_rows = 1;
    output.dtype = BP_DTYPE_F32;
    output.rows = &last;
    output.data = logits.data();
    output.row_stride_bytes = logits.size() * sizeof(float);
    const bp_output* outputs[] = {&output};
    int32_t seq_status = BP_SEQ_OK;
    auto batch = make_growable<bp_batch>();
    batch.n_tokens = n;
    batch.n_seqs = 1;
    batch.n_groups = static_cast<uint32_t>(tables_.size());
    batch.n_outputs = context_len == tokens_.size() ? 1 : 0;
    batch.tokens = tokens_.data() + first;
    batch.positions = positions.data();
    batch.query_start = query_start;
    batch.context_len = &context_len;
    batch.block_tables = tables_.data();
    batch.outputs = outputs;
    batch.seq_status = &seq_status;
    uint64_t ticket = 0;
    BP_TRY(executable_.submit(batch, ticket));
    BP_TRY(executable_.collect(ticket));
    if (seq_status != BP_SEQ_OK) return internal_error("the backend failed on these tokens");
    return {};
  }

  const plugin::ExecutableHandle& executable_;
  std::span<const int32_t> tokens_;
  std::vector<int32_t> blocks_;
  std::vector<bp_block_table> tables_;
};

}  // namespace

Status logits(const LogitsOptions& options) {
  BP_ASSIGN(const auto runtime, runtime::default_runtime(options.n_threads));
  BP_ASSIGN(config::Model config,
            config::default_model(options.model, options.backend, runtime->catalog()));
  BP_TRY(config::set_kv_types(options.kv_types, config.backend));
  BP_TRY(config::add_overrides(options.overrides, runtime->catalog(), config.backend));
  runtime::CompileLimits limits;
  limits.context = static_cast<uint32_t>(options.tokens.size());
  limits.max_step_tokens = kChunk;
  limits.max_sequences = 1;
  limits.max_output_rows = 1;
  BP_ASSIGN(model::LoadedModel model, runtime::load_model(*runtime, config));
  const uint32_t n_vocab = model.n_vocab;
  BP_TRY(check_tokens(options.tokens, n_vocab));
  BP_ASSIGN(const runtime::CompiledModel compiled,
            runtime::compile_model(*runtime, config, std::move(model), limits, nullptr));
  BP_ASSIGN(const runtime::KvPlan plan,
            runtime::plan_kv(compiled.memory, compiled.limits, limits.context, std::nullopt));
  BP_TRY(runtime::allocate_kv(compiled.executable, compiled.memory, plan.n_blocks));
  BP_TRY(compiled.executable.warm_up(nullptr));
  std::vector<float> row(n_vocab);
  BP_TRY(LastRow(compiled, options.tokens).compute(row));
  fmt::print("{{\"n_vocab\":{},\"logits\":[{:.9g}]}}\n", n_vocab, fmt::join(row, ","));
  return {};
}

}  // namespace bp::cli
