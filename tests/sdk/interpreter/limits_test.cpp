// Batches and calls that are refused, each with one sentence, before any memory is touched.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"
#include "sdk/conformance/support/reference_factory.hpp"
#include "sdk/conformance/support/tiny_llama.hpp"

namespace bp::test {
namespace {

using namespace conformance;

using testing::HasSubstr;

constexpr uint32_t kVocab = TinyLlama::kVocab;

class Limits : public testing::Test {
 protected:
  Limits() : session_(kReference) {
    bp_compile_options options = BackendSession::default_options();
    options.block_size = 4;
    options.max_context = 16;
    options.max_step_tokens = 8;
    options.max_sequences = 2;
    options.max_output_rows = 3;
    session_.compile(model_.program(), options, 8);
  }

  static BatchBuilder valid() {
    BatchBuilder batch;
    batch.add_sequence({1, 2, 3}, 0, {1});
    batch.add_sequence({4}, 0, {2});
    batch.add_output(0, {2, 3}, kVocab, -7.0f);
    return batch;
  }
  void expect_refused(const bp_batch& batch, const std::string& sentence,
                      Code code = Code::kInvalidArgument) {
    const Status status = session_.run(batch);
    EXPECT_EQ(status.code(), code);
    EXPECT_THAT(status.message(), HasSubstr(sentence));
  }
  // A valid batch, spoilt.
  void expect_spoilt(const std::function<void(bp_batch&)>& spoil, const std::string& sentence,
                     Code code = Code::kInvalidArgument) {
    BatchBuilder builder = valid();
    bp_batch batch = builder.build();
    spoil(batch);
    expect_refused(batch, sentence, code);
    EXPECT_EQ(builder.output(0), std::vector<float>(2 * kVocab, -7.0f));
  }

  TinyLlama model_;
  BackendSession session_;
};

TEST_F(Limits, AValidBatchRuns) {
  BatchBuilder builder = valid();
  const Status status = session_.run(builder.build());
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(Limits, SizesBeyondThoseOfCompile) {
  BatchBuilder tokens, sequences, context, rows;
  tokens.add_sequence({1, 2, 3, 4, 5, 6, 7, 8, 9}, 0, {1, 2, 3});
  expect_refused(tokens.build(), "n_tokens is 9, the limit given to compile is 8");
  for (int32_t s = 1; s <= 3; ++s) sequences.add_sequence({1}, 0, {s});
  expect_refused(sequences.build(), "n_seqs is 3");
  context.add_sequence({1}, 16, {1, 2, 3, 4, 5});
  expect_refused(context.build(), "sequence 0: context_len is 17");
  rows.add_sequence({1, 2, 3, 4}, 0, {1});
  rows.add_output(0, {0, 1, 2, 3}, kVocab);
  expect_refused(rows.build(), "number of output rows is 4");
}

TEST_F(Limits, BlockIdsOutOfRange) {
  for (const int32_t bad : {0, 8, -1}) {
    BatchBuilder batch;
    batch.add_sequence({1}, 0, {1});
    batch.add_sequence({1}, 4, {2, bad});
    expect_refused(batch.build(), "sequence 1: block id " + std::to_string(bad) + " at index 1");
  }
  BatchBuilder cached, narrow;
  cached.add_sequence({1}, 4, {8, 1});
  expect_refused(cached.build(), "block id 8 at index 0 of group 0 is not in [0, 8)");
  narrow.add_sequence({1, 2}, 3, {1});
  expect_refused(narrow.build(), "no room for 2 blocks");
}

TEST_F(Limits, BlockOps) {
  const auto refused = [&](bp_block_op op, const std::string& sentence, Code code) {
    BatchBuilder batch = valid();
    batch.add_block_op(op);
    expect_refused(batch.build(), sentence, code);
  };
  refused({BP_BLOCK_COPY, BP_BLOCK_OF_GROUP, 0, 8, 1}, "block 8", Code::kInvalidArgument);
  refused({BP_BLOCK_COPY, BP_BLOCK_OF_GROUP, 0, 1, 0}, "block 0", Code::kInvalidArgument);
  refused({BP_BLOCK_CLEAR, BP_BLOCK_OF_GROUP, 0, 0, -2}, "block -2", Code::kInvalidArgument);
  refused({BP_BLOCK_CLEAR, BP_BLOCK_OF_GROUP, 1, 0, 1}, "KV group 1", Code::kInvalidArgument);
  refused({7, BP_BLOCK_OF_GROUP, 0, 0, 1}, "unknown action 7", Code::kUnsupported);
  refused({BP_BLOCK_CLEAR, BP_BLOCK_OF_STATE, 0, 0, 1}, "state slot 0", Code::kInvalidArgument);
  refused({BP_BLOCK_CLEAR, 2, 0, 0, 1}, "space 2", Code::kUnsupported);
}

TEST_F(Limits, BatchesThatContradictThemselves) {
  const uint32_t starts[] = {0, 5, 4}, late[] = {1, 3, 4}, lengths[] = {2, 1};
  const int32_t gap[] = {0, 2, 3, 0}, negative[] = {-1, 0, 1, 0};
  expect_spoilt([&](bp_batch& b) { b.query_start = starts; }, "query_start");
  expect_spoilt([&](bp_batch& b) { b.query_start = late; }, "query_start");
  expect_spoilt([&](bp_batch& b) { b.positions = gap; }, "positions must ascend");
  expect_spoilt([&](bp_batch& b) { b.positions = negative; }, "positions must ascend");
  expect_spoilt([&](bp_batch& b) { b.context_len = lengths; }, "context_len is 2");
  expect_spoilt([&](bp_batch& b) { b.n_groups = 0; }, "0 KV groups");
  expect_spoilt([&](bp_batch& b) { b.tokens = nullptr; }, "null");
  expect_spoilt([&](bp_batch& b) { b.required = 1; }, "unknown feature", Code::kUnsupported);
}

TEST_F(Limits, Outputs) {
  const auto refused = [&](uint32_t output, std::vector<uint32_t> rows, const char* sentence) {
    BatchBuilder batch = valid();
    batch.add_output(output, std::move(rows), kVocab);
    expect_refused(batch.build(), sentence);
  };
  refused(1, {0}, "program output 1 does not exist");
  refused(0, {0}, "asked for twice");
  for (const std::vector<uint32_t>& rows : {std::vector<uint32_t>{4}, {1, 1}, {2, 1}}) {
    BatchBuilder batch;
    batch.add_sequence({1, 2, 3}, 0, {1});
    batch.add_output(0, rows, kVocab);
    expect_refused(batch.build(), "rows must ascend");
  }
}

TEST(Compile, RefusesKvTypesItDoesNotKeep) {
  TinyLlama model;
  BackendSession session(kReference);
  bp_compile_options options = BackendSession::default_options();
  options.k_dtype = BP_DTYPE_Q4_K;
  const Status status = session.try_compile(model.program(), options);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("k_dtype is q4_K"));
}

TEST(Compile, StepsWaitForKvMemory) {
  TinyLlama model;
  BackendSession session(kReference);
  ASSERT_TRUE(session.try_compile(model.program(), BackendSession::default_options()).ok());
  BatchBuilder batch;
  batch.add_sequence({1}, 0, {1});
  const Status status = session.run(batch.build());
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("kv_allocate"));
}

TEST(Compile, NamesEveryObstacle) {
  TinyLlama model;
  bp_program program = model.program();
  program.n_state_slots = 2;
  const bp_state_slot states[] = {{4}, {0}};
  program.state_slots = states;
  const std::vector<uint32_t> inputs = {program.inputs[0], 0};  // value 0 is no id
  program.inputs = inputs.data();
  program.n_inputs = 2;
  BackendSession session(kReference);
  std::string sentences;
  for (const auto& [op, sentence] : session.obstacles(program)) sentences += sentence + "\n";
  EXPECT_THAT(sentences, testing::AllOf(HasSubstr("state slot 1 holds nothing"),
                                        HasSubstr("no op names state slot 0")));
  EXPECT_THAT(sentences, HasSubstr("inputs other than token ids"));
  EXPECT_FALSE(session.try_compile(program, BackendSession::default_options()).ok());
}

TEST(Compile, CanBeStopped) {
  TinyLlama model;
  BackendSession session(kReference);
  bp_compile_options options = BackendSession::default_options();
  auto progress = make_growable<bp_progress>();
  progress.report = [](void*, uint64_t done, uint64_t) -> int32_t { return done >= 2; };
  options.progress = &progress;
  EXPECT_EQ(session.try_compile(model.program(), options).code(), Code::kCancelled);
}

TEST(Compile, ReportsMemoryByBlock) {
  TinyLlama model;
  BackendSession session(kReference);
  bp_compile_options options = BackendSession::default_options();
  options.block_size = 8;
  session.compile(model.program(), options, 4);
  const bp_memory_info info = session.memory();
  EXPECT_EQ(info.block_size, 8u);
  EXPECT_EQ(info.n_groups, 1u);
  EXPECT_EQ(info.block_bytes[0], 8u * 2 * TinyLlama::kLayers * TinyLlama::kKvHeads *
                                     TinyLlama::kHeadDim * sizeof(float));
  EXPECT_EQ(info.k_dtype, BP_DTYPE_F32);
  EXPECT_GE(info.max_in_flight, 1u);
  EXPECT_GT(info.workspace_bytes, uint64_t{512} * TinyLlama::kDim * sizeof(float));
  EXPECT_GT(info.available_bytes, 0u);
}

}  // namespace
}  // namespace bp::test
