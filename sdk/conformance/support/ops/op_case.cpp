#include "sdk/conformance/support/ops/op_case.hpp"

#include <algorithm>

#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"
#include "sdk/conformance/support/ops/case_program.hpp"
#include "sdk/conformance/test.hpp"

namespace bp::conformance {

namespace {

constexpr uint32_t kBlockSize = 16, kBlocks = 256;

class CaseSteps {
 public:
  CaseSteps(CaseProgram& program, const OpCase& c, uint32_t first_position, uint32_t block_size)
      : program_(program), case_(c), first_position_(first_position), block_size_(block_size) {}

  // The part that is cached (false) or the part that is looked at (true).
  [[nodiscard]] BatchBuilder batch(bool looked_at) const {
    BatchBuilder batch;
    std::vector<int32_t> state_in, state_out;
    uint32_t row = 0;
    for (uint32_t s = 0; s < case_.sequences.size(); ++s) {
      const auto [n_cached, n_new] = case_.sequences[s];
      const uint32_t first = looked_at ? n_cached : 0, n = looked_at ? n_new : n_cached;
      std::vector<int32_t> tokens;
      for (uint32_t i = 0; i < n; ++i) tokens.push_back(program_.token_id(row + first + i));
      if (n > 0) {
        const uint32_t position = first_position_ + first;
        batch.add_sequence(tokens, static_cast<int32_t>(position), blocks(s, position + n));
        state_in.push_back(looked_at && n_cached > 0 ? entry(s, false) : 0);
        state_out.push_back(entry(s, looked_at && !continues_in_place(s)));
      }
      row += n_cached + n_new;
    }
    if (program_.has_state()) batch.set_states(std::move(state_in), std::move(state_out));
    return batch;
  }

 private:
  // Every third sequence.
  static bool continues_in_place(uint32_t s) { return s % 3 == 2; }
  // The state entry that sequence s has after each part.
  static int32_t entry(uint32_t s, bool looked_at) {
    return static_cast<int32_t>(looked_at ? 1 + s : kBlocks - 1 - s);
  }
  // Blocks of sequence s: every n_seqs-th one, descending.
  [[nodiscard]] std::vector<int32_t> blocks(uint32_t s, uint32_t n_tokens) const {
    std::vector<int32_t> blocks;
    if (program_.n_groups() == 0) return blocks;
    const auto n_seqs = static_cast<uint32_t>(case_.sequences.size());
    for (uint32_t i = 0; i * block_size_ < n_tokens; ++i) {
      blocks.push_back(static_cast<int32_t>(kBlocks - 1 - s - i * n_seqs));
    }
    return blocks;
  }

  CaseProgram& program_;
  const OpCase& case_;
  uint32_t first_position_, block_size_;
};

bp_compile_options options_of(const CaseRun& run, bool has_kv) {
  bp_compile_options options = BackendSession::default_options();
  options.k_dtype = options.v_dtype = has_kv ? run.kv : BP_DTYPE_NONE;
  if (has_kv && run.kv_values != BP_DTYPE_NONE) options.v_dtype = run.kv_values;
  options.block_size = kBlockSize;
  return options;
}

void run_step(BackendSession& session, BatchBuilder& batch, uint32_t n_groups) {
  const Status status = session.run(batch.build(n_groups));
  if (!status.ok()) throw Failure("the step failed: " + status.message());
  const std::string broken = batch.broken_rule();
  if (!broken.empty()) throw Failure(broken);
  for (size_t s = 0; s < batch.status().size(); ++s) {
    if (batch.status()[s] == BP_SEQ_OK) continue;
    throw Failure("sequence " + std::to_string(s) + " ended with seq_status " +
                  std::to_string(batch.status()[s]));
  }
}

void compile(BackendSession& session, CaseProgram& program, const CaseRun& run) {
  const Status status =
      session.try_compile(program.builder().build(), options_of(run, program.n_groups() > 0));
  if (status.code() == Code::kUnsupported) throw Skip(status.message());
  if (!status.ok()) throw Failure("compile: " + status.message());
  session.allocate(program.n_groups() + (program.has_state() ? 1 : 0), kBlocks);
}

}  // namespace

std::string refusal_of_case(const bp_backend_factory& factory, const bp_params* params,
                            const OpSpec& spec, const OpCase& c, const CaseRun& run) {
  CaseProgram program(spec, c, run);
  BackendSession session(factory, nullptr, params);
  const auto obstacles = session.obstacles(program.builder().build());
  for (const auto& [op, sentence] : obstacles) {
    const bool exists = op != BP_NONE && op < program.builder().build().n_ops;
    if (exists && program.builder().op_kind(op) == spec.name) return sentence;
  }
  return obstacles.empty() ? "" : obstacles.front().second;
}

std::vector<CaseOutput> run_case_outputs(const bp_backend_factory& factory, const bp_params* params,
                                         const OpSpec& spec, const OpCase& c, const CaseRun& run) {
  CaseProgram program(spec, c, run);
  const auto given = program.builder().weight_checksums();
  BackendSession session(factory, nullptr, params);
  compile(session, program, run);
  const CaseSteps steps(program, c, run.first_position, session.memory().block_size);

  BatchBuilder cached = steps.batch(false);
  const bool keeps = program.n_groups() > 0 || program.has_state();
  if (keeps && cached.n_tokens() > 0) run_step(session, cached, program.n_groups());

  BatchBuilder looked_at = steps.batch(true);
  std::vector<uint32_t> rows = c.select;
  for (uint32_t t = 0; !c.selects && t < looked_at.n_tokens(); ++t) rows.push_back(t);
  for (uint32_t o = 0; o < program.outputs().size(); ++o) {
    looked_at.add_guarded_output(o, rows, program.outputs()[o].width);
  }
  run_step(session, looked_at, program.n_groups());

  const auto now = program.builder().weight_checksums();
  for (uint32_t w = 0; w < now.size(); ++w) {
    if (now[w] == given[w]) continue;
    throw Failure("the step changed the weight " + program.builder().weight_name(w));
  }
  std::vector<CaseOutput> outputs;
  for (size_t o = 0; o < program.outputs().size(); ++o) {
    const auto& [name, width] = program.outputs()[o];
    outputs.push_back({name, width, looked_at.guarded(o).rows()});
  }
  return outputs;
}

std::vector<std::vector<float>> run_case(const bp_backend_factory& factory, const OpSpec& spec,
                                         const OpCase& c, const CaseRun& run) {
  std::vector<std::vector<float>> rows;
  for (CaseOutput& output : run_case_outputs(factory, nullptr, spec, c, run)) {
    rows.push_back(std::move(output.rows));
  }
  return rows;
}

}  // namespace bp::conformance
