#include "sdk/conformance/support/transformer_session.hpp"

#include <algorithm>

namespace bp::conformance {

namespace {

// A block's place in the other groups: neighbours stay neighbours but at one id.
int32_t elsewhere(int32_t block) {
  constexpr auto n = static_cast<int32_t>(TransformerSession::kBlocks) - 1;
  return block == 0 ? 0 : 1 + (block - 1 + n / 2) % n;
}

// Kinds of composites that the backend refuses. Throws Skip where it refuses anything else.
std::set<std::string> refused_composites(BackendSession& session, SmallTransformer& model) {
  std::set<std::string> kinds;
  for (const auto& [op, sentence] : session.obstacles(model.program())) {
    if (op == BP_NONE || op >= model.program().n_ops) throw Skip(sentence);
    const std::string kind = model.builder().op_kind(op);
    const OpSchema* schema = find_op_schema(kind);
    if (schema == nullptr || !schema->composite) throw Skip(sentence);
    kinds.insert(kind);
  }
  return kinds;
}

}  // namespace

std::unique_ptr<SmallTransformer> accepted_transformer(BackendSession& session,
                                                       const TransformerShape& shape,
                                                       const std::vector<OpSpec>& specs) {
  auto model = std::make_unique<SmallTransformer>(shape, specs, std::set<std::string>());
  const auto inlined = refused_composites(session, *model);
  if (inlined.empty()) return model;
  model = std::make_unique<SmallTransformer>(shape, specs, inlined);
  const auto left = session.obstacles(model->program());
  if (!left.empty()) throw Skip(left.front().second);
  return model;
}

TransformerSession::TransformerSession(const bp_backend_factory& factory, const bp_params* params,
                                       const std::vector<OpSpec>& specs, const Options& options)
    : n_groups_(options.shape.window == 0 ? 1 : 2) {
  compile(factory, params, specs, options);
}

void TransformerSession::compile(const bp_backend_factory& factory, const bp_params* params,
                                 const std::vector<OpSpec>& specs, const Options& options) {
  session_ = std::make_unique<BackendSession>(factory, nullptr, params);
  model_ = accepted_transformer(*session_, options.shape, specs);
  bp_compile_options compile_options = BackendSession::default_options();
  compile_options.max_context = kMaxContext;
  compile_options.max_step_tokens = 1024;
  compile_options.max_output_rows = 2048;
  compile_options.block_size = options.block_size;
  compile_options.k_dtype = compile_options.v_dtype = options.kv;
  const Status status = session_->try_compile(model_->program(), compile_options);
  if (status.code() == Code::kUnsupported) throw Skip(status.message());
  if (!status.ok()) throw Failure("compile: " + status.message());
  if (options.transfers) transfer_ = std::make_unique<KvTransferClient>(*session_);
  session_->allocate(n_groups_, kBlocks);
}

std::vector<Blocks> TransformerSession::tables(const Blocks& blocks, const Extras& extras) const {
  std::vector<Blocks> tables = {blocks};
  if (n_groups_ == 1) return tables;
  Blocks& windowed = tables.emplace_back(blocks);
  for (int32_t& block : windowed) {
    const auto& null = extras.null_in_window;
    block = std::find(null.begin(), null.end(), block) != null.end() ? 0 : elsewhere(block);
  }
  return tables;
}

std::vector<Floats> TransformerSession::step(const std::vector<SequenceStep>& sequences,
                                             const Extras& extras) {
  BatchBuilder batch;
  batch.pad_tables(extras.table_padding);
  for (const bp_block_op& op : extras.block_ops) {
    batch.add_block_op(op);
    if (n_groups_ == 1) continue;
    bp_block_op other = op;
    other.index = 1;
    other.source = elsewhere(op.source);
    other.destination = elsewhere(op.destination);
    batch.add_block_op(other);
  }
  std::vector<uint32_t> rows;
  std::vector<size_t> n_rows;
  for (const SequenceStep& sequence : sequences) {
    const uint32_t start = batch.n_tokens();
    batch.add_sequence_of_groups(sequence.tokens, static_cast<int32_t>(sequence.first),
                                 tables(sequence.blocks, extras));
    const size_t before = rows.size();
    for (const uint32_t row : sequence.rows) rows.push_back(start + row);
    for (uint32_t t = 0; !sequence.selects && t < sequence.tokens.size(); ++t) {
      rows.push_back(start + t);
    }
    n_rows.push_back(rows.size() - before);
  }
  batch.add_guarded_output(SmallTransformer::kLogits, rows, SmallTransformer::kVocab);
  if (!extras.hidden_rows.empty()) {
    batch.add_guarded_output(SmallTransformer::kHidden, extras.hidden_rows, SmallTransformer::kDim);
  }
  const Status status = session_->run(batch.build(n_groups_));
  if (!status.ok()) throw Failure("the step failed: " + status.message());
  const std::string broken = batch.broken_rule();
  if (!broken.empty()) throw Failure(broken);
  for (size_t s = 0; s < sequences.size(); ++s) {
    if (batch.status()[s] == BP_SEQ_OK) continue;
    throw Failure("sequence " + std::to_string(s) + " ended with seq_status " +
                  std::to_string(batch.status()[s]));
  }
  if (!extras.hidden_rows.empty()) hidden_ = batch.guarded(1).rows();
  const Floats all = batch.guarded(0).rows();
  std::vector<Floats> logits;
  auto begin = all.begin();
  for (const size_t n : n_rows) {
    const auto end = begin + static_cast<std::ptrdiff_t>(n * SmallTransformer::kVocab);
    logits.emplace_back(begin, end);
    begin = end;
  }
  return logits;
}

}  // namespace bp::conformance
