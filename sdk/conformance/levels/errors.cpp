// Bad batches, NaN and stopped sequences: what fails, what does not, and what stays intact.

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "sdk/conformance/levels/levels.hpp"
#include "sdk/conformance/support/device_sampling.hpp"
#include "sdk/conformance/support/llama_session.hpp"

namespace bp::conformance {

namespace {

constexpr uint32_t kVocab = TinyLlama::kVocab;
constexpr float kUntouched = -7.0f;

Floats row(const Floats& logits, size_t i) {
  const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(i * kVocab);
  return {begin, begin + kVocab};
}

std::string code_name(bp_status code) {
  constexpr const char* names[] = {"OK",       "INVALID_ARGUMENT", "UNSUPPORTED", "OUT_OF_MEMORY",
                                   "IO_ERROR", "DEVICE_LOST",      "CANCELLED",   "INTERNAL"};
  return code >= 0 && code <= BP_INTERNAL ? names[code] : std::to_string(code);
}

// One sequence in the cache, whose next logits show whether a failed step damaged it.
class Cached {
 public:
  explicit Cached(Subject& subject)
      : llama_(make_llama(subject)),
        session_(subject, *llama_),
        blocks_(session_.blocks(1, kLength)) {
    (void)session_.logits(tokens_, 0, blocks_);
    expected_ = last_logits();
  }

  [[nodiscard]] LlamaSession& session() { return session_; }
  [[nodiscard]] const Ints& tokens() const { return tokens_; }
  [[nodiscard]] const Ints& blocks() const { return blocks_; }

  // The batch's step must fail with the code, write no output and leave the cache alone.
  void require_refused(const std::string& what, BatchBuilder& batch, bp_status code) {
    require_refused(what, batch.build(), code);
    for (const float x : batch.output(0)) {
      require(x == kUntouched, what + ": the step failed but wrote an output");
    }
  }
  void require_refused(const std::string& what, const bp_batch& batch, bp_status code) {
    const Status status = session_.run(batch);
    require(static_cast<bp_status>(status.code()) == code,
            what + ": the step must fail with " + code_name(code) + ", it gave " +
                code_name(static_cast<bp_status>(status.code())) + " " + status.message());
    require(!status.message().empty(), what + ": the error has no message");
    require_intact(what);
  }
  // Runs the last token again, over all that the cache holds of the others.
  void require_intact(const std::string& what) {
    require(same_bits(last_logits(), expected_),
            what + ": the cache of another sequence has changed, its next logits differ");
  }

 private:
  static constexpr uint32_t kLength = 40;

  Floats last_logits() { return session_.logits({tokens_.back()}, kLength - 1, blocks_); }

  std::unique_ptr<TinyLlama> llama_;
  LlamaSession session_;
  Ints tokens_ = tokens_of(1, kLength), blocks_;
  Floats expected_;
};

BatchBuilder batch_of(const Ints& tokens, int32_t first, const Ints& blocks) {
  BatchBuilder batch;
  batch.add_sequence(tokens, first, blocks);
  batch.add_output(0, {static_cast<uint32_t>(tokens.size()) - 1}, kVocab, kUntouched);
  return batch;
}

void refuses_block_ids(Subject& subject) {
  Cached cached(subject);
  constexpr int32_t max = std::numeric_limits<int32_t>::max();
  for (const int32_t bad : {-1, 0, static_cast<int32_t>(LlamaSession::kBlocks), max, -max - 1}) {
    BatchBuilder batch;
    // A good sequence first, which would overwrite the cache.
    batch.add_sequence(tokens_of(9, 8), 0, cached.blocks());
    batch.add_sequence({1, 2}, 0, {bad});
    batch.add_output(0, {0, 9}, kVocab, kUntouched);
    cached.require_refused("block id " + std::to_string(bad), batch, BP_INVALID_ARGUMENT);
  }
}

void refuses_block_ops(Subject& subject) {
  Cached cached(subject);
  const auto past = static_cast<int32_t>(LlamaSession::kBlocks);
  const bp_block_op wrong[] = {
      {BP_BLOCK_CLEAR, BP_BLOCK_OF_GROUP, 0, 0, past},
      {BP_BLOCK_CLEAR, BP_BLOCK_OF_GROUP, 0, 0, -1},
      {BP_BLOCK_COPY, BP_BLOCK_OF_GROUP, 0, past, 2},
      {BP_BLOCK_COPY, BP_BLOCK_OF_GROUP, 0, -1, 2},
      {BP_BLOCK_COPY, BP_BLOCK_OF_GROUP, 0, 1, past},
      {BP_BLOCK_CLEAR, BP_BLOCK_OF_GROUP, 7, 0, 2},
  };
  for (const bp_block_op& op : wrong) {
    BatchBuilder batch = batch_of({1, 2, 3}, 0, {50});
    batch.add_block_op({BP_BLOCK_CLEAR, BP_BLOCK_OF_GROUP, 0, 0, cached.blocks().front()});
    batch.add_block_op(op);
    const std::string what = "a block op from " + std::to_string(op.source) + " to " +
                             std::to_string(op.destination) + " of group " +
                             std::to_string(op.index);
    cached.require_refused(what, batch, BP_INVALID_ARGUMENT);
  }
}

void refuses_batches_beyond_limits(Subject& subject) {
  Cached cached(subject);
  LlamaSession& session = cached.session();
  const bp_compile_options limits = LlamaSession::default_options();

  const Ints many = tokens_of(2, limits.max_step_tokens + 1);
  BatchBuilder tokens = batch_of(many, 0, session.blocks(1, static_cast<uint32_t>(many.size())));
  cached.require_refused("a batch of more than max_step_tokens", tokens, BP_INVALID_ARGUMENT);

  const uint32_t n_rows = limits.max_output_rows + 1;
  BatchBuilder rows = LlamaSession::one(tokens_of(2, n_rows), 0, session.blocks(1, n_rows));
  cached.require_refused("a batch that asks for more than max_output_rows", rows.build(),
                         BP_INVALID_ARGUMENT);

  BatchBuilder sequences;
  for (uint32_t s = 0; s <= limits.max_sequences; ++s) {
    sequences.add_sequence({1}, 0, {static_cast<int32_t>(1 + s)});
  }
  sequences.add_output(0, {0}, kVocab, kUntouched);
  cached.require_refused("a batch of more than max_sequences", sequences, BP_INVALID_ARGUMENT);

  const auto last = static_cast<int32_t>(limits.max_context);
  BatchBuilder context = batch_of({1}, last, session.blocks(1, limits.max_context + 1));
  cached.require_refused("a context_len of more than max_context", context, BP_INVALID_ARGUMENT);

  BatchBuilder output = batch_of({1, 2}, 0, {50});
  output.add_output(5, {0}, kVocab, kUntouched);
  cached.require_refused("a program output that does not exist", output, BP_INVALID_ARGUMENT);
}

void refuses_unknown_bits(Subject& subject) {
  Cached cached(subject);
  constexpr uint64_t unknown = uint64_t{1} << 63;
  BatchBuilder builder = batch_of(tokens_of(9, 8), 0, cached.blocks());
  bp_batch batch = builder.build();
  batch.required = unknown;
  cached.require_refused("an unknown bit in bp_batch.required", batch, BP_UNSUPPORTED);

  batch = builder.build();
  bp_output output = *batch.outputs[0];
  output.required = unknown;
  const bp_output* table[] = {&output};
  batch.outputs = table;
  cached.require_refused("an unknown bit in bp_output.required", batch, BP_UNSUPPORTED);
}

void a_bad_token_fails_its_sequence(Subject& subject) {
  Cached cached(subject);
  const Ints good = tokens_of(3, 5);
  const Floats alone = row(cached.session().logits(good, 0, {50}), 4);
  Ints bad_ids = {static_cast<int32_t>(kVocab), std::numeric_limits<int32_t>::max()};
  BackendSession& backend = cached.session().backend();
  const auto sampling = offered_sampling(backend.table(), backend.backend());
  if (!sampling || sampling->takes_chosen == 0) bad_ids.push_back(-1);
  for (const int32_t bad : bad_ids) {
    const std::string what = "token id " + std::to_string(bad);
    BatchBuilder batch;
    batch.add_sequence({1, bad, 2}, 0, {51});
    batch.add_sequence(good, 0, {52});
    batch.add_output(0, {2, 7}, kVocab, kUntouched);
    const Status status = cached.session().run(batch);
    require(status.ok(), what + " must fail its sequence only, the step gave " + status.message());
    require(batch.status() == Ints({BP_SEQ_FAILED, BP_SEQ_OK}),
            what + ": seq_status must be {FAILED, OK}, is {" + std::to_string(batch.status()[0]) +
                ", " + std::to_string(batch.status()[1]) + "}");
    require(row(batch.output(0), 0) == Floats(kVocab, kUntouched),
            what + ": the failed sequence's output was written");
    require(same_within_bounds(alone, row(batch.output(0), 1)),
            what + " changes the logits of another sequence");
    cached.require_intact(what);
  }
}

// The embedding of token 3 alone is NaN; the head, which is the same matrix, gives NaN in column 3.
void nan_is_data(Subject& subject) {
  const auto llama = make_llama(subject);
  LlamaSession clean(subject, *llama);
  Floats expected = row(clean.logits({4, 5}, 0, {2}), 1);

  const auto poisoned = make_llama(subject);
  auto* table = static_cast<float*>(const_cast<void*>(poisoned->builder().weight_part(0).data));
  std::fill_n(table + 3 * TinyLlama::kDim, TinyLlama::kDim, std::nanf(""));
  LlamaSession session(subject, *poisoned);
  BatchBuilder batch;
  batch.add_sequence({1, 3, 2}, 0, {1});
  batch.add_sequence({4, 5}, 0, {2});
  batch.add_output(0, {2, 4}, kVocab);
  const Status status = session.run(batch);
  require(status.ok(), "a NaN in a weight makes the step fail: " + status.message());
  require(batch.status() == Ints({BP_SEQ_OK, BP_SEQ_OK}),
          "a NaN in a weight makes seq_status other than OK");
  const Floats bad = row(batch.output(0), 0);
  Floats good = row(batch.output(0), 1);
  const auto n_nan = std::count_if(bad.begin(), bad.end(), [](float x) { return std::isnan(x); });
  require(n_nan == kVocab, "a sequence that saw a NaN has " + std::to_string(kVocab - n_nan) +
                               " logits that are no NaN, must be none");
  good[3] = expected[3] = 0;
  require(same_within_bounds(expected, good), "a NaN reaches another sequence of the batch");
}

void stopped_sequences_are_skipped(Subject& subject) {
  Cached cached(subject);
  const Ints a = tokens_of(4, 6), b = tokens_of(5, 5);
  const Floats alone = row(cached.session().logits(b, 0, {50}), 4);
  BatchBuilder batch;
  batch.add_sequence(a, 0, {51});
  batch.add_sequence(b, 0, {52});
  batch.add_output(0, {5, 10}, kVocab, kUntouched);
  batch.set_stop({1, 0});
  const Status status = cached.session().run(batch);
  require(status.ok(), "a stopped sequence makes the step fail: " + status.message());
  require(batch.status()[0] == BP_SEQ_STOPPED,
          "seq_status of a sequence that stop_seq stopped is " + std::to_string(batch.status()[0]) +
              ", must be BP_SEQ_STOPPED");
  require(batch.status()[1] == BP_SEQ_OK, "stop_seq of one sequence changes another's seq_status");
  require(row(batch.output(0), 0) == Floats(kVocab, kUntouched),
          "the output of a stopped sequence was written");
  require(same_within_bounds(alone, row(batch.output(0), 1)),
          "stopping one sequence changes the logits of another");
  batch.set_stop({1, 1});
  require(cached.session().run(batch).ok(), "a step whose sequences are all stopped fails");
  require(batch.status() == Ints({BP_SEQ_STOPPED, BP_SEQ_STOPPED}),
          "seq_status must be STOPPED for all sequences");
  cached.require_intact("a stopped sequence");
}

void the_step_after_an_error_is_good(Subject& subject) {
  Cached cached(subject);
  const Ints tokens = tokens_of(6, 30);
  const Floats expected = cached.session().logits(tokens, 0, cached.session().blocks(20, 30));
  for (int i = 0; i < 20; ++i) {
    BatchBuilder bad = batch_of({1, 2}, 0, {-5});
    cached.require_refused("a bad batch", bad, BP_INVALID_ARGUMENT);
    require(
        same_bits(cached.session().logits(tokens, 0, cached.session().blocks(20, 30)), expected),
        "after a step that failed the next one gives other logits");
  }
}

// A progress that asks to stop at its n-th report.
struct Stopping {
  explicit Stopping(uint64_t n) : left(n), progress(make_growable<bp_progress>()) {
    progress.user = this;
    progress.report = [](void* user, uint64_t done, uint64_t total) -> int32_t {
      auto& self = *static_cast<Stopping*>(user);
      if (std::this_thread::get_id() != self.caller) self.is_right = false;
      if (done > total) self.is_right = false;
      if (self.left > 1) return --self.left, 0;
      self.was_asked = true;
      return 1;
    };
  }
  uint64_t left;
  bp_progress progress;
  std::thread::id caller = std::this_thread::get_id();
  bool was_asked = false;
  bool is_right = true;  // always from the calling thread, and done at most total

  void require_obeyed(const std::string& what, bp_status status) const {
    require(is_right, what + " reports progress from another thread, or more than the total");
    const bp_status expected = was_asked ? BP_CANCELLED : BP_OK;
    require(status == expected, what + (was_asked ? " whose progress asks to stop" : "") +
                                    " must give " + code_name(expected) + ", gave " +
                                    code_name(status));
  }
};

void progress_stops_long_work(Subject& subject) {
  const auto llama = make_llama(subject);
  const auto factory = subject.factory<bp_backend_factory>(BP_BACKEND_ID);
  BackendSession session(factory, nullptr, &subject.params());
  bool was_asked = true;
  for (uint64_t n = 1; was_asked && n < 50; ++n) {
    Stopping compiling(n), warming(n);
    bp_compile_options options = LlamaSession::default_options();
    options.progress = &compiling.progress;
    bp_executable* executable = nullptr;
    bp_error error{};
    bp_status status =
        factory.compile(session.backend(), &llama->program(), &options, &executable, &error);
    compiling.require_obeyed("compile", status);
    was_asked = compiling.was_asked;
    if (status != BP_OK) {
      require(executable == nullptr, "compile is cancelled but writes *out");
      continue;
    }
    const uint32_t n_blocks[] = {8};
    status = factory.kv_allocate(executable, n_blocks, 1, &error);
    if (status == BP_OK) status = factory.warm_up(executable, &warming.progress, &error);
    factory.destroy_executable(executable);
    warming.require_obeyed("warm_up", status);
    was_asked = warming.was_asked;
  }
}

}  // namespace

void add_errors_tests(Subject&, Tests& tests) {
  const auto add = [&](const char* name, const char* description, void (*body)(Subject&)) {
    tests.push_back({name, "errors", description, body});
  };
  add("errors-block-ids", "A block id out of range is INVALID_ARGUMENT before anything is written.",
      refuses_block_ids);
  add("errors-block-ops",
      "A block op out of range is INVALID_ARGUMENT before any block op is done.",
      refuses_block_ops);
  add("errors-limits", "A batch beyond the limits given to compile is INVALID_ARGUMENT.",
      refuses_batches_beyond_limits);
  add("errors-required-bits", "Unknown required bits of a batch or an output are UNSUPPORTED.",
      refuses_unknown_bits);
  add("errors-bad-token", "A token id outside the vocabulary fails its own sequence only.",
      a_bad_token_fails_its_sequence);
  add("errors-nan", "A NaN is data: OK, NaN rows, and other sequences unaffected.", nan_is_data);
  add("errors-stopped", "A sequence that stop_seq stops is STOPPED, the others are unaffected.",
      stopped_sequences_are_skipped);
  add("errors-cancelled",
      "compile and warm_up whose progress asks to stop give CANCELLED, and report truthfully.",
      progress_stops_long_work);
  add("errors-next-step", "After failed steps the next ones give the same logits as before.",
      the_step_after_an_error_is_good);
}

}  // namespace bp::conformance
