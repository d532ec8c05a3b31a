// Walks through a model op by op: runs all ops up to it on the backend, and the op alone on the
// reference, on the very inputs that the backend gave it. So the first op that is reported is at
// fault itself, whatever came before.

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>

#include "backplane/dtype.hpp"
#include "sdk/conformance/levels/levels.hpp"
#include "sdk/conformance/resources.hpp"
#include "sdk/conformance/runner.hpp"
#include "sdk/conformance/subject.hpp"
#include "sdk/conformance/support/excerpt.hpp"
#include "sdk/conformance/support/reference_factory.hpp"
#include "sdk/conformance/support/transformer_session.hpp"

namespace bp::conformance {

namespace {

constexpr uint32_t kBlocks = 64;

using Recorded = std::map<uint32_t, std::vector<float>>;  // rows by value, of both steps

struct Part {
  uint32_t first, n;  // positions
};
// Of each sequence what comes in the first step, and in the second: decodes, a chunk, a prompt.
constexpr Part kSteps[2][4] = {{{0, 37}, {0, 16}, {0, 5}, {0, 0}},
                               {{37, 1}, {16, 1}, {5, 19}, {0, 11}}};

// Token ids by their index in both steps together.
using TokenOf = int32_t (*)(uint32_t index);

int32_t vocabulary_token(uint32_t index) {
  return static_cast<int32_t>((index * 31 + 7) % SmallTransformer::kNanToken);
}
int32_t row_number(uint32_t index) {
  return static_cast<int32_t>(index);
}

class Walk {
 public:
  Walk(Subject& subject, const TransformerShape& shape)
      : specs_(load_op_specs(op_specs_folder())),
        factory_(subject.factory<bp_backend_factory>(BP_BACKEND_ID)),
        params_(subject.params()) {
    BackendSession session(factory_, nullptr, &params_);
    model_ = accepted_transformer(session, shape, specs_);
    whole_.emplace(model_->program());
    kv_ = accepted_kv_type();
  }

  [[nodiscard]] uint32_t n_ops() const { return static_cast<uint32_t>(whole_->ops().size()); }
  [[nodiscard]] const bp_op& op(uint32_t i) const { return whole_->ops()[i]; }
  // Ops without rows of their own show in those that follow.
  [[nodiscard]] bool is_judged(uint32_t i) const {
    return op(i).n_outputs > 0 && kind_of(op(i)) != BP_OP_SELECT_ROWS;
  }

  // Throws Failure where op i leaves its bound.
  void judge(uint32_t i) const {
    const std::vector<uint32_t> unit = unit_of(i);
    const Recorded found = run_prefix(i, unit);
    const Recorded expected = run_alone(unit, found);
    for (const uint32_t value : output_slots(op(i))) {
      if (value != BP_NONE) compare_rows(i, value, expected.at(value), found.at(value));
    }
  }

 private:
  [[nodiscard]] static bp_compile_options options_of(bp_dtype kv) {
    bp_compile_options options = BackendSession::default_options();
    options.k_dtype = options.v_dtype = kv;
    options.block_size = 16;
    return options;
  }
  // The most exact one. Throws Skip where the backend compiles the model with none.
  [[nodiscard]] bp_dtype accepted_kv_type() const {
    Status status;
    for (const bp_dtype kv : {BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_BF16}) {
      BackendSession session(factory_, nullptr, &params_);
      status = session.try_compile(model_->program(), options_of(kv));
      if (status.ok()) return kv;
      if (status.code() != Code::kUnsupported) throw Failure("compile: " + status.message());
    }
    throw Skip(status.message());
  }
  // The op, and before it the one that writes the KV it reads.
  [[nodiscard]] std::vector<uint32_t> unit_of(uint32_t i) const {
    if (kind_of(op(i)) != BP_OP_ATTEND) return {i};
    const uint32_t slot = attributes_of<bp_attr_attention>(op(i)).kv_slot;
    for (uint32_t j = i; j-- > 0;) {
      const bool writes = kind_of(op(j)) == BP_OP_KV_WRITE;
      if (writes && attributes_of<bp_attr_kv_write>(op(j)).kv_slot == slot) return {j, i};
    }
    return {i};
  }
  // Values of floats in the slots of the unit's ops, in order and once.
  [[nodiscard]] std::vector<uint32_t> values_of(const std::vector<uint32_t>& unit,
                                                bool outputs) const {
    std::vector<uint32_t> values;
    for (const uint32_t i : unit) {
      for (const uint32_t value : outputs ? output_slots(op(i)) : input_slots(op(i))) {
        const bool floats = value != BP_NONE && whole_->values()[value].dtype == BP_DTYPE_F32;
        if (floats && std::find(values.begin(), values.end(), value) == values.end()) {
          values.push_back(value);
        }
      }
    }
    return values;
  }

  [[nodiscard]] Recorded run_prefix(uint32_t last, const std::vector<uint32_t>& unit) const {
    Excerpt prefix(*whole_);
    for (uint32_t i = 0; i <= last; ++i) {
      if (kind_of(op(i)) != BP_OP_SELECT_ROWS) prefix.add(i);
    }
    std::vector<uint32_t> exposed = values_of(unit, false);
    for (const uint32_t value : values_of(unit, true)) exposed.push_back(value);
    return run(factory_, &params_, prefix, exposed, vocabulary_token);
  }
  [[nodiscard]] Recorded run_alone(const std::vector<uint32_t>& unit, const Recorded& rows) const {
    Excerpt alone(*whole_);
    for (const uint32_t value : values_of(unit, false)) alone.feed(value, rows.at(value));
    for (const uint32_t i : unit) alone.add(i);
    const bool reads_ids = values_of(unit, false).empty();
    return run(kReference, nullptr, alone, values_of(unit, true),
               reads_ids ? vocabulary_token : row_number);
  }

  [[nodiscard]] Recorded run(const bp_backend_factory& factory, const bp_params* params,
                             Excerpt& excerpt, const std::vector<uint32_t>& exposed,
                             TokenOf token_of) const {
    for (const uint32_t value : exposed) excerpt.expose(value);
    BackendSession session(factory, nullptr, params);
    session.compile(excerpt.builder().build(), options_of(kv_), kBlocks);
    Recorded rows;
    uint32_t n_before = 0;
    for (const auto& step : kSteps) {
      BatchBuilder batch = batch_of(step, token_of, n_before, session.memory().block_size);
      std::vector<uint32_t> all(batch.n_tokens());
      for (uint32_t t = 0; t < all.size(); ++t) all[t] = t;
      for (uint32_t o = 0; o < exposed.size(); ++o) {
        batch.add_guarded_output(o, all, whole_->values()[exposed[o]].width);
      }
      const Status status = session.run(batch.build(whole_->header().n_kv_groups));
      if (!status.ok()) throw Failure("the step fails: " + status.message());
      const std::string broken = batch.broken_rule();
      if (!broken.empty()) throw Failure(broken);
      for (uint32_t o = 0; o < exposed.size(); ++o) {
        const auto more = batch.guarded(o).rows();
        rows[exposed[o]].insert(rows[exposed[o]].end(), more.begin(), more.end());
      }
      n_before += batch.n_tokens();
    }
    return rows;
  }

  static BatchBuilder batch_of(const Part (&step)[4], TokenOf token_of, uint32_t n_before,
                               uint32_t block_size) {
    BatchBuilder batch;
    for (uint32_t s = 0; s < 4; ++s) {
      const auto [first, n] = step[s];
      if (n == 0) continue;
      std::vector<int32_t> tokens, blocks;
      for (uint32_t i = 0; i < n; ++i) tokens.push_back(token_of(n_before + batch.n_tokens() + i));
      for (uint32_t b = 0; b * block_size < first + n; ++b) {
        blocks.push_back(static_cast<int32_t>(kBlocks - 1 - s - 4 * b));
      }
      batch.add_sequence(tokens, static_cast<int32_t>(first), blocks);
    }
    return batch;
  }

  void compare_rows(uint32_t i, uint32_t value, const std::vector<float>& expected,
                    const std::vector<float>& found) const {
    const std::string kind(kind_of(op(i)));
    const auto spec = std::find_if(specs_.begin(), specs_.end(),
                                   [&](const OpSpec& candidate) { return candidate.name == kind; });
    bp_dtype weights = BP_DTYPE_F32;
    for (const uint32_t weight : weight_slots(op(i))) {
      if (weight == BP_NONE) continue;
      const bp_weight_part& part = *data_part(whole_->weights()[weight]);
      if (part.n_dims > 1) weights = part.dtype;
    }
    const std::string wrong =
        compare(expected, found, spec->bound(weights, kv_), whole_->values()[value].width);
    if (wrong.empty()) return;
    const auto outputs = output_slots(op(i));
    const auto slot =
        static_cast<size_t>(std::find(outputs.begin(), outputs.end(), value) - outputs.begin());
    throw Failure("output " + std::string(find_op_schema(kind)->outputs[slot].name) + ": " + wrong);
  }

  std::vector<OpSpec> specs_;
  bp_backend_factory factory_;
  const bp_params& params_;
  std::unique_ptr<SmallTransformer> model_;
  std::optional<ProgramView> whole_;
  bp_dtype kv_ = BP_DTYPE_NONE;
};

// In a process of its own, so that a crash is the op's.
TestResult run_test(Subject& subject, const std::function<void(Subject&)>& body) {
  return run_apart({"", "", "", body, std::chrono::seconds(60)}, subject);
}

enum class Verdict { kFine, kWrong, kRefused };

Verdict walk(Subject& subject, const TransformerShape& shape) {
  const std::string model = "a small transformer, weights of " +
                            std::string(dtype_name(shape.weights)) +
                            (shape.window == 0 ? "" : ", with a window in layer 1");
  std::printf("%s\n", model.c_str());
  const TestResult built = run_test(subject, [&](Subject& s) { Walk(s, shape); });
  if (built.outcome != Outcome::kPass) {
    const bool skip = built.outcome == Outcome::kSkip;
    std::printf("  %s  %s\n", skip ? "skip" : "WRONG", built.message.c_str());
    return skip ? Verdict::kRefused : Verdict::kWrong;
  }
  const Walk ops(subject, shape);
  for (uint32_t i = 0; i < ops.n_ops(); ++i) {
    if (!ops.is_judged(i)) continue;
    const TestResult result = run_test(subject, [&](Subject&) { ops.judge(i); });
    const bool fine = result.outcome == Outcome::kPass;
    std::printf("  %s  %s (%s)\n", fine ? "ok   " : "WRONG", ops.op(i).name, ops.op(i).kind);
    std::fflush(stdout);
    if (fine) continue;
    std::printf("%s: the first op outside its bound is %s (%s), op %u of the program: %s\n",
                model.c_str(), ops.op(i).name, ops.op(i).kind, i, result.message.c_str());
    return Verdict::kWrong;
  }
  return Verdict::kFine;
}

}  // namespace

int bisect(Subject& subject) {
  bool any_fine = false;
  for (const bp_dtype weights : {BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_Q8_0}) {
    TransformerShape shape;
    shape.weights = weights;
    shape.window = 24;
    shape.seed = subject.options().seed;
    shape.all_rows = true;
    const Verdict verdict = walk(subject, shape);
    if (verdict == Verdict::kWrong) return 1;
    any_fine = any_fine || verdict == Verdict::kFine;
  }
  std::printf(any_fine ? "every op is within its bound\n" : "error: no op was run\n");
  return any_fine ? 0 : 1;
}

}  // namespace bp::conformance
