#pragma once
// A program of the two ops with state, step by step: ids -> rows of a table -> short_conv ->
// gated_delta, in two state slots.

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"
#include "sdk/conformance/support/kv_transfer_client.hpp"
#include "sdk/conformance/support/program_builder.hpp"
#include "sdk/conformance/support/random_values.hpp"

namespace bp::conformance {

struct RecurrentPiece {
  std::vector<int32_t> tokens;
  uint32_t position;
  int32_t state_in, state_out;
};

class RecurrentSession {
 public:
  using Rows = std::vector<float>;
  static constexpr uint32_t kVocab = 40, kEntries = 12;
  static constexpr uint32_t kHeads = 4, kKeyHeads = 2, kKeyDim = 12, kValueDim = 100, kKernel = 4;
  static constexpr uint32_t kQkv = 2 * kKeyHeads * kKeyDim + kHeads * kValueDim;
  static constexpr uint32_t kOut = kHeads * kValueDim;

  // The factory and params outlive it. Throws Skip with what the backend refuses.
  RecurrentSession(const bp_backend_factory& factory, const bp_params* params,
                   uint32_t n_threads = 0, bool transfers = false)
      : program_(program()), session_(factory, nullptr, params) {
    for (const auto& [op, sentence] : session_.obstacles(program_.build())) throw Skip(sentence);
    bp_compile_options options = BackendSession::default_options();
    options.n_threads = n_threads;
    const Status status = session_.try_compile(program_.build(), options);
    if (!status.ok()) throw Failure("compile: " + status.message());
    if (transfers) transfer_ = std::make_unique<KvTransferClient>(session_);
    session_.allocate(1, kEntries);
  }
  [[nodiscard]] BackendSession& session() { return session_; }
  // Where they are wanted.
  [[nodiscard]] const KvTransferClient& transfer() const { return *transfer_; }

  // The rows of each piece's tokens.
  std::vector<Rows> step(const std::vector<RecurrentPiece>& pieces,
                         const std::vector<bp_block_op>& ops = {}) {
    BatchBuilder batch;
    const Status status = run(batch, pieces, ops);
    if (!status.ok()) throw Failure("the step failed: " + status.message());
    const std::string broken = batch.broken_rule();
    if (!broken.empty()) throw Failure(broken);
    std::vector<Rows> rows;
    const Rows all = batch.guarded(0).rows();
    auto from = all.begin();
    for (const RecurrentPiece& piece : pieces) {
      const auto n = static_cast<std::ptrdiff_t>(piece.tokens.size() * kOut);
      rows.emplace_back(from, from + n);
      from += n;
    }
    return rows;
  }
  Rows one(const std::vector<int32_t>& tokens, uint32_t position, int32_t in, int32_t out) {
    return step({{tokens, position, in, out}})[0];
  }
  Status run(BatchBuilder& batch, const std::vector<RecurrentPiece>& pieces,
             const std::vector<bp_block_op>& ops = {}) {
    std::vector<int32_t> in, out;
    for (const RecurrentPiece& piece : pieces) {
      batch.add_sequence(piece.tokens, static_cast<int32_t>(piece.position));
      in.push_back(piece.state_in);
      out.push_back(piece.state_out);
    }
    batch.set_states(in, out);
    for (const bp_block_op& op : ops) batch.add_block_op(op);
    std::vector<uint32_t> rows(batch.n_tokens());
    std::iota(rows.begin(), rows.end(), 0);
    batch.add_guarded_output(0, rows, kOut);
    return session_.run(batch.build(0));
  }

 private:
  static ProgramBuilder program() {
    ProgramBuilder p;
    const uint32_t ids = p.add_ids();
    const auto rows_of = [&](const char* name, uint32_t width) {
      const uint32_t table =
          p.add_weight(name, BP_DTYPE_F32, {kVocab, width}, normal_values(name, kVocab * width));
      const uint32_t rows = p.add_value(width);
      p.add_op(BP_OP_GATHER, {ids}, {rows}, {table});
      return rows;
    };
    const uint32_t x = rows_of("x", kQkv), a = rows_of("a", kHeads), b = rows_of("b", kHeads);
    bp_attr_short_conv conv{};
    conv.state_slot = p.add_state_slot(uint64_t{kQkv} * (kKernel - 1));
    conv.kernel = kKernel;
    conv.activation = BP_ACT_SILU;
    const uint32_t w =
        p.add_weight("w", BP_DTYPE_F32, {kQkv, kKernel}, normal_values("w", kQkv * kKernel, 0.5f));
    const uint32_t qkv = p.add_value(kQkv);
    p.add_op(BP_OP_SHORT_CONV, {x}, {qkv}, {w, BP_NONE}, ProgramBuilder::attributes(conv));
    bp_attr_gated_delta delta{};
    delta.state_slot = p.add_state_slot(uint64_t{kHeads} * kKeyDim * kValueDim);
    delta.n_heads = kHeads;
    delta.n_key_heads = kKeyHeads;
    delta.key_dim = kKeyDim;
    delta.value_dim = kValueDim;
    delta.scale = 0.3f;
    delta.eps = 1e-6f;
    const uint32_t decay =
        p.add_weight("decay", BP_DTYPE_F32, {kHeads}, {-0.05f, -0.3f, -1.0f, -0.1f});
    const uint32_t out = p.add_value(kOut);
    p.add_op(BP_OP_GATED_DELTA, {qkv, a, b}, {out}, {decay, BP_NONE},
             ProgramBuilder::attributes(delta));
    p.add_selected_output(out);
    return p;
  }

  ProgramBuilder program_;
  BackendSession session_;
  std::unique_ptr<KvTransferClient> transfer_;
};

}  // namespace bp::conformance
