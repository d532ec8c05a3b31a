// What must not change a sequence's logits by a single bit: chunks, neighbours, blocks, their size,
// threads and where weights are kept. And what the step owes the host: statuses, limits, outputs
// and their greatest values.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>
#include <ostream>
#include <sstream>

#include "backplane/dtype.hpp"
#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"
#include "sdk/conformance/support/ops/op_case.hpp"
#include "sdk/conformance/support/reference_factory.hpp"
#include "sdk/conformance/support/tiny_llama.hpp"
#include "tests/backends/cpu/isa_backends.hpp"

namespace bp::test {
namespace {

using namespace conformance;

constexpr uint32_t kVocab = TinyLlama::kVocab;
constexpr uint32_t kBlocks = 64;
using Tokens = std::vector<int32_t>;
using Floats = std::vector<float>;

Tokens tokens_of(uint32_t seed, uint32_t n) {
  Tokens tokens(n);
  for (uint32_t i = 0; i < n; ++i) {
    tokens[i] = static_cast<int32_t>((seed * 13 + i * 7 + i * i) % kVocab);
  }
  return tokens;
}

// n blocks from `first` on, each `step` after the one before.
Tokens blocks_from(int32_t first, uint32_t n, int32_t step = 1) {
  Tokens blocks(n);
  for (uint32_t i = 0; i < n; ++i) blocks[i] = first + static_cast<int32_t>(i) * step;
  return blocks;
}

Tokens slice(const Tokens& tokens, size_t begin, size_t end) {
  return {tokens.begin() + static_cast<long>(begin), tokens.begin() + static_cast<long>(end)};
}

struct KvTypes {
  bp_dtype k = BP_DTYPE_NONE, v = BP_DTYPE_NONE;
};

struct Config {
  NamedFactory backend;
  bp_dtype dtype = BP_DTYPE_F32;
  KvTypes kv = {};
  uint32_t head_dim = TinyLlama::kHeadDim;
};

void PrintTo(const Config& config, std::ostream* out) {
  *out << config.backend.name << " " << dtype_name(config.dtype);
  if (config.kv.k != BP_DTYPE_NONE) {
    *out << " keys " << dtype_name(config.kv.k) << " values " << dtype_name(config.kv.v);
  }
  if (config.head_dim != TinyLlama::kHeadDim) *out << " heads of " << config.head_dim;
}

class Model {
 public:
  explicit Model(const Config& config, bp_compile_options options = default_options(),
                 uint32_t window = 0, uint32_t n_ff = TinyLlama::kFf)
      : llama_(config.dtype, window, {}, {}, n_ff, config.head_dim),
        session_(*config.backend.factory) {
    if (options.k_dtype == BP_DTYPE_NONE) options.k_dtype = config.kv.k;
    if (options.v_dtype == BP_DTYPE_NONE) options.v_dtype = config.kv.v;
    session_.compile(llama_.program(), options, kBlocks);
  }

  static bp_compile_options default_options() {
    bp_compile_options options = BackendSession::default_options();
    options.n_threads = 2;
    options.max_context = 256;
    return options;
  }

  Status run(BatchBuilder& batch) { return session_.run(batch.build()); }
  // Logits of every token.
  Floats logits(const Tokens& tokens, int32_t first, const Tokens& blocks) {
    BatchBuilder batch;
    batch.add_sequence(tokens, first, blocks);
    std::vector<uint32_t> rows(tokens.size());
    std::iota(rows.begin(), rows.end(), 0u);
    batch.add_output(0, rows, kVocab);
    const Status status = run(batch);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(batch.broken_rule(), "");
    return batch.output(0);
  }
  Floats last_logits(const Tokens& tokens, int32_t first, const Tokens& blocks) {
    const Floats all = logits(tokens, first, blocks);
    return {all.end() - kVocab, all.end()};
  }
  bp_memory_info memory() { return session_.memory(); }

 private:
  TinyLlama llama_;
  BackendSession session_;
};

class CpuStep : public testing::TestWithParam<Config> {};

std::vector<Config> configs() {
  std::vector<Config> all;
  for (const NamedFactory& backend : cpu_factories()) {
    for (const bp_dtype dtype :
         {BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_Q8_0, BP_DTYPE_Q4_1, BP_DTYPE_Q5_0}) {
      all.push_back({backend, dtype});
    }
    all.push_back({backend, BP_DTYPE_F32, {BP_DTYPE_Q8_0, BP_DTYPE_Q8_0}});
    all.push_back({backend, BP_DTYPE_F32, {BP_DTYPE_F16, BP_DTYPE_Q8_0}});
    all.push_back({backend, BP_DTYPE_F32, {BP_DTYPE_BF16, BP_DTYPE_BF16}});
    all.push_back({backend, BP_DTYPE_F32, {BP_DTYPE_BF16, BP_DTYPE_BF16}, 64});
    all.push_back({backend, BP_DTYPE_F32, {BP_DTYPE_Q8_0, BP_DTYPE_BF16}});
    all.push_back({backend, BP_DTYPE_F32, {BP_DTYPE_Q4_0, BP_DTYPE_Q4_0}});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, CpuStep, testing::ValuesIn(configs()), [](const auto& config) {
  std::ostringstream text;
  PrintTo(config.param, &text);
  std::string name = text.str();
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

constexpr uint32_t kLong = 150;  // three tiles of attention

TEST_P(CpuStep, ChunksEqualTheWholePrompt) {
  Model model(GetParam());
  const Tokens tokens = tokens_of(2, kLong);
  const Floats whole = model.logits(tokens, 0, blocks_from(1, 3));
  for (const std::vector<size_t>& cuts : {std::vector<size_t>{1, 64, 65}, {128}, {5, 6, 7, 149}}) {
    Floats chunks;
    size_t begin = 0;
    for (size_t i = 0; i <= cuts.size(); ++i) {
      const size_t end = i < cuts.size() ? cuts[i] : tokens.size();
      const Floats part =
          model.logits(slice(tokens, begin, end), static_cast<int32_t>(begin), blocks_from(10, 3));
      chunks.insert(chunks.end(), part.begin(), part.end());
      begin = end;
    }
    EXPECT_EQ(chunks, whole);
  }
}

// Of a prompt whose last tokens are taken back, as by speculation: what came after them is gone,
// what stands before them, in a block that had been full, is not.
TEST_P(CpuStep, TokensWrittenAnewReplaceThoseOfFullBlocks) {
  const Tokens tokens = tokens_of(2, kLong), others = tokens_of(7, kLong);
  for (const uint32_t kept : {127u, 100u, 64u, 40u}) {
    Tokens mixed = slice(tokens, 0, kept);
    mixed.insert(mixed.end(), others.begin() + kept, others.end());
    Model fresh(GetParam());
    const Floats expected = fresh.last_logits(mixed, 0, blocks_from(1, 3));
    Model model(GetParam());
    for (uint32_t t = 0; t < kLong; t += 50) {
      model.logits(slice(tokens, t, t + 50), static_cast<int32_t>(t), blocks_from(1, 3));
    }
    model.logits(slice(mixed, kept, kept + 2), static_cast<int32_t>(kept), blocks_from(1, 3));
    const Floats found = model.last_logits(slice(mixed, kept + 2, kLong),
                                           static_cast<int32_t>(kept + 2), blocks_from(1, 3));
    EXPECT_EQ(found, expected) << kept;
  }
}

TEST_P(CpuStep, CopiesOfFullBlocksContinueApart) {
  constexpr uint32_t kKept = 50;  // of the first block, by the copy
  const Tokens tokens = tokens_of(2, kLong);
  Tokens others = tokens_of(7, kLong);
  std::copy_n(tokens.begin(), kKept, others.begin());
  Model fresh(GetParam());
  const Floats expected = fresh.last_logits(tokens, 0, blocks_from(1, 3));
  const Floats of_others = fresh.last_logits(others, 0, blocks_from(1, 3));
  Model model(GetParam());
  model.logits(slice(tokens, 0, kLong - 1), 0, blocks_from(1, 3));
  BatchBuilder batch;
  batch.add_block_op({BP_BLOCK_COPY, BP_BLOCK_OF_GROUP, 0, 1, 10});
  batch.add_sequence(slice(others, kKept, kLong), kKept, blocks_from(10, 3));
  batch.add_output(0, {kLong - kKept - 1}, kVocab);
  ASSERT_TRUE(model.run(batch).ok());
  EXPECT_EQ(batch.output(0), of_others);
  EXPECT_EQ(model.last_logits({tokens.back()}, kLong - 1, blocks_from(1, 3)), expected);
}

TEST_P(CpuStep, TellsTheGreatestValueOfEachRow) {
  Model model(GetParam());
  BatchBuilder batch;
  batch.add_sequence(tokens_of(1, 60), 0, blocks_from(1, 1));
  batch.add_sequence(tokens_of(2, 3), 0, blocks_from(2, 1));
  batch.add_output(0, {7, 58, 59, 62}, kVocab);
  const Status status = model.run(batch);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(batch.broken_rule(), "");
  EXPECT_EQ(std::ranges::count(batch.greatest(0), -1), 0);
}

// The MLP's rows are taken in passes, the last of few rows, where its intermediate is wide.
TEST(CpuPasses, EqualShorterSteps) {
  constexpr uint32_t kWide = 32768, kTokens = 60;
  for (const NamedFactory& backend : cpu_factories()) {
    for (const bp_dtype dtype : {BP_DTYPE_F16, BP_DTYPE_Q4_1}) {
      bp_compile_options options = Model::default_options();
      options.max_step_tokens = kTokens;
      Model model({backend, dtype}, options, 0, kWide);
      const Tokens tokens = tokens_of(3, kTokens);
      const Floats whole = model.logits(tokens, 0, blocks_from(1, 2));
      Floats parts;
      for (uint32_t begin = 0; begin < kTokens; begin += 20) {
        const Floats part = model.logits(slice(tokens, begin, begin + 20),
                                         static_cast<int32_t>(begin), blocks_from(10, 2));
        parts.insert(parts.end(), part.begin(), part.end());
      }
      EXPECT_EQ(parts, whole) << backend.name << " " << dtype_name(dtype);
    }
  }
}

TEST_P(CpuStep, NeighboursAndTheirOrderDoNotMatter) {
  Model model(GetParam());
  const std::vector<uint32_t> lengths = {70, 1, 12, 3, 1, 33};
  std::vector<Floats> alone;
  for (uint32_t s = 0; s < lengths.size(); ++s) {
    alone.push_back(model.last_logits(tokens_of(s, lengths[s]), 0, blocks_from(1, 2)));
  }
  for (const std::vector<uint32_t>& order :
       {std::vector<uint32_t>{0, 1, 2, 3, 4, 5}, {5, 4, 3, 2, 1, 0}, {2, 0, 4, 1, 5, 3}}) {
    BatchBuilder batch;
    std::vector<uint32_t> rows;
    Floats expected;
    uint32_t n_tokens = 0;
    for (const uint32_t s : order) {
      batch.add_sequence(tokens_of(s, lengths[s]), 0,
                         blocks_from(static_cast<int32_t>(10 + 2 * s), 2));
      n_tokens += lengths[s];
      rows.push_back(n_tokens - 1);
      expected.insert(expected.end(), alone[s].begin(), alone[s].end());
    }
    batch.add_output(0, rows, kVocab);
    const Status status = model.run(batch);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(batch.output(0), expected);
  }
}

TEST_P(CpuStep, SixteenDecodesTogetherEqualEachAlone) {
  Model model(GetParam());
  constexpr uint32_t n_seqs = 16;
  std::vector<Floats> alone;
  BatchBuilder together;
  std::vector<uint32_t> rows;
  for (uint32_t s = 0; s < n_seqs; ++s) {
    const Tokens tokens = tokens_of(s, 60 + s);
    const Tokens blocks = blocks_from(static_cast<int32_t>(1 + 2 * s), 2);
    model.logits(slice(tokens, 0, tokens.size() - 1), 0, blocks);
    const auto last = static_cast<int32_t>(tokens.size() - 1);
    alone.push_back(model.logits({tokens.back()}, last, blocks));
    together.add_sequence({tokens.back()}, last, blocks);
    rows.push_back(s);
  }
  together.add_output(0, rows, kVocab);
  const Status status = model.run(together);
  ASSERT_TRUE(status.ok()) << status.message();
  for (uint32_t s = 0; s < n_seqs; ++s) {
    const auto* own = together.output(0).data() + s * kVocab;
    EXPECT_EQ(Floats(own, own + kVocab), alone[s]) << "sequence " << s;
  }
}

TEST_P(CpuStep, ThreadsBlocksAndTheirSizeDoNotMatter) {
  const Tokens tokens = tokens_of(3, kLong);
  Floats expected;
  for (const uint32_t n_threads : {1u, 2u, 3u}) {
    for (const uint32_t block_size : {64u, 32u, 128u}) {
      bp_compile_options options = Model::default_options();
      options.n_threads = n_threads;
      options.block_size = block_size;
      Model model(GetParam(), options);
      ASSERT_EQ(model.memory().block_size, block_size);
      const uint32_t n_blocks = (kLong + block_size - 1) / block_size;
      Floats found = model.logits(tokens, 0, blocks_from(1, n_blocks));
      if (expected.empty()) expected = found;
      EXPECT_EQ(found, expected) << n_threads << " threads, blocks of " << block_size;
      found = model.logits(tokens, 0, blocks_from(50, n_blocks, -3));
      EXPECT_EQ(found, expected) << "descending blocks of " << block_size;
    }
  }
}

TEST_P(CpuStep, AgreesWithTheReferenceForEveryKvType) {
  if (GetParam().kv.k != BP_DTYPE_NONE) return;  // its weights come with each type here
  const Tokens tokens = tokens_of(4, kLong);
  const ErrorBound exact{2e-4, 2e-3};
  // 8-bit activations, four products deep.
  const ErrorBound quantised{0.05, 0.3};
  for (const auto& [k, v] : {KvTypes{BP_DTYPE_F32, BP_DTYPE_F32},
                             {BP_DTYPE_F16, BP_DTYPE_F16},
                             {BP_DTYPE_BF16, BP_DTYPE_BF16},
                             {BP_DTYPE_Q8_0, BP_DTYPE_Q8_0},
                             {BP_DTYPE_Q8_0, BP_DTYPE_F16},
                             {BP_DTYPE_F32, BP_DTYPE_Q8_0}}) {
    bp_compile_options options = Model::default_options();
    options.k_dtype = k;
    options.v_dtype = v;
    Model model(GetParam(), options);
    Model reference({{"reference", &kReference}, GetParam().dtype}, options);
    const uint32_t block_size = reference.memory().block_size;
    const Floats found = model.logits(tokens, 0, blocks_from(1, 3));
    const Floats expected =
        reference.logits(tokens, 0, blocks_from(1, (kLong + block_size - 1) / block_size));
    const bool is_quantised = is_block_quantised(GetParam().dtype);
    // The reference's keys and ours round to the same 8 bits, but for those that lie on an edge.
    const ErrorBound narrow{5e-3, 5e-2};
    const bool is_exact = k == BP_DTYPE_F32 && v == BP_DTYPE_F32;
    const ErrorBound bound = is_quantised ? quantised : is_exact ? exact : narrow;
    EXPECT_EQ(compare(expected, found, bound), "") << dtype_name(k) << " " << dtype_name(v);
  }
}

TEST_P(CpuStep, WindowsHideOldPositions) {
  constexpr uint32_t window = 40;
  Model model(GetParam(), Model::default_options(), window);
  const Tokens tokens = tokens_of(5, kLong);
  const Floats whole = model.last_logits(tokens, 0, blocks_from(1, 3));
  // Two layers look back twice the window; before that nothing matters, and a block that no
  // position looks at may be the null block.
  Tokens other = tokens;
  for (uint32_t i = 0; i < kLong - 2 * window; ++i) other[i] = (other[i] + 1) % int32_t{kVocab};
  EXPECT_EQ(model.last_logits(other, 0, blocks_from(1, 3)), whole);
  other[kLong - window / 2] = (other[kLong - window / 2] + 1) % int32_t{kVocab};
  EXPECT_NE(model.last_logits(other, 0, blocks_from(1, 3)), whole);
  model.logits(slice(tokens, 0, kLong - 1), 0, blocks_from(20, 3));
  EXPECT_EQ(model.logits({tokens.back()}, kLong - 1, {0, 21, 22}), whole);
}

class CpuStepDuties : public testing::Test {
 protected:
  Model model_{{cpu_factories().back(), BP_DTYPE_Q8_0}};
};

TEST_F(CpuStepDuties, ATokenOutOfRangeFailsItsSequenceOnly) {
  for (const int32_t bad : {-1, static_cast<int32_t>(kVocab), INT32_MAX, INT32_MIN}) {
    const Floats expected = model_.last_logits(tokens_of(1, 5), 0, {3});
    BatchBuilder batch;
    batch.add_sequence({1, bad, 2}, 0, {1});
    batch.add_sequence(tokens_of(1, 5), 0, {2});
    batch.add_output(0, {2, 7}, kVocab, 77.0f);
    ASSERT_TRUE(model_.run(batch).ok());
    EXPECT_EQ(batch.status(), (std::vector<int32_t>{BP_SEQ_FAILED, BP_SEQ_OK}));
    EXPECT_EQ(batch.output(0)[0], 77.0f);
    EXPECT_EQ(Floats(batch.output(0).end() - kVocab, batch.output(0).end()), expected);
  }
}

TEST_F(CpuStepDuties, StoppedSequencesAreSkippedAndOthersUnaffected) {
  const Floats expected = model_.last_logits(tokens_of(1, 5), 0, {3});
  BatchBuilder batch;
  batch.add_sequence(tokens_of(2, 4), 0, {1});
  batch.add_sequence(tokens_of(1, 5), 0, {2});
  batch.set_stop({1, 0});
  batch.add_output(0, {3, 8}, kVocab, 77.0f);
  ASSERT_TRUE(model_.run(batch).ok());
  EXPECT_EQ(batch.status(), (std::vector<int32_t>{BP_SEQ_STOPPED, BP_SEQ_OK}));
  EXPECT_EQ(batch.output(0)[0], 77.0f);
  EXPECT_EQ(Floats(batch.output(0).end() - kVocab, batch.output(0).end()), expected);
  batch.set_stop({1, 1});
  ASSERT_TRUE(model_.run(batch).ok());
  EXPECT_EQ(batch.status(), (std::vector<int32_t>{BP_SEQ_STOPPED, BP_SEQ_STOPPED}));
}

TEST_F(CpuStepDuties, ABlockOutOfRangeIsRefusedBeforeAnythingIsWritten) {
  const Tokens tokens = tokens_of(1, 70);
  model_.logits(slice(tokens, 0, 69), 0, {1, 2});
  for (const int32_t bad : {-1, 0, static_cast<int32_t>(kBlocks)}) {
    BatchBuilder batch;
    batch.add_sequence(tokens_of(9, 69), 0, {1, 2});
    batch.add_sequence({1}, 0, {bad});
    batch.add_output(0, {0}, kVocab, 77.0f);
    const Status status = model_.run(batch);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << bad;
    EXPECT_EQ(batch.output(0)[0], 77.0f);
  }
  Model fresh({cpu_factories().back(), BP_DTYPE_Q8_0});
  EXPECT_EQ(model_.logits({tokens.back()}, 69, {1, 2}), fresh.last_logits(tokens, 0, {1, 2}));
}

TEST_F(CpuStepDuties, CopiedBlocksContinueLikeTheirSource) {
  const Tokens tokens = tokens_of(6, 40);
  for (const bp_dtype kv : {BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_Q8_0}) {
    Model model({cpu_factories().back(), BP_DTYPE_Q8_0, {kv, kv}});
    const Floats expected = model.last_logits(tokens, 0, {1});
    model.logits(slice(tokens, 0, 39), 0, {2});
    BatchBuilder batch;
    batch.add_block_op({BP_BLOCK_COPY, BP_BLOCK_OF_GROUP, 0, 2, 3});
    batch.add_block_op({BP_BLOCK_CLEAR, BP_BLOCK_OF_GROUP, 0, 0, 2});
    batch.add_sequence({tokens.back()}, 39, {3});
    batch.add_output(0, {0}, kVocab);
    ASSERT_TRUE(model.run(batch).ok());
    EXPECT_EQ(batch.output(0), expected);
  }
}

TEST_F(CpuStepDuties, ABatchWithoutTokensRunsItsBlockOps) {
  BatchBuilder batch;
  batch.add_sequence({}, 0);
  batch.add_block_op({BP_BLOCK_CLEAR, BP_BLOCK_OF_GROUP, 0, 0, 2});
  EXPECT_TRUE(model_.run(batch).ok());
}

TEST_F(CpuStepDuties, StridedOutputRowsAreWrittenWhereTheHostWantsThem) {
  const Floats expected = model_.logits(tokens_of(1, 3), 0, {3});
  constexpr uint32_t stride = kVocab + 3;
  BatchBuilder batch;
  batch.add_sequence(tokens_of(1, 3), 0, {3});
  batch.add_output(0, {1, 2}, stride, 77.0f);
  ASSERT_TRUE(model_.run(batch).ok());
  for (uint32_t r = 0; r < 2; ++r) {
    for (uint32_t i = 0; i < stride; ++i) {
      const float want = i < kVocab ? expected[(r + 1) * kVocab + i] : 77.0f;
      EXPECT_EQ(batch.output(0)[r * stride + i], want) << r << " " << i;
    }
  }
}

TEST_F(CpuStepDuties, MemoryNamesWhatABlockTakes) {
  const bp_memory_info info = model_.memory();
  EXPECT_EQ(info.n_groups, 1u);
  EXPECT_EQ(info.block_size, 64u);
  EXPECT_EQ(info.k_dtype, BP_DTYPE_F16);
  // Values of a head of 8 take 16.
  EXPECT_EQ(info.block_bytes[0],
            uint64_t{TinyLlama::kLayers} * TinyLlama::kKvHeads * 64 * (8 + 16) * 2);
  Model pairs({cpu_factories().back(), BP_DTYPE_F32, {BP_DTYPE_BF16, BP_DTYPE_BF16}});
  EXPECT_EQ(pairs.memory().k_dtype, BP_DTYPE_BF16);
  // Keys of a head of 8 take 32.
  EXPECT_EQ(pairs.memory().block_bytes[0],
            uint64_t{TinyLlama::kLayers} * TinyLlama::kKvHeads * 64 * (32 + 16) * 2);
  Model narrow({cpu_factories().back(), BP_DTYPE_F32, {BP_DTYPE_Q8_0, BP_DTYPE_Q8_0}});
  EXPECT_EQ(narrow.memory().k_dtype, BP_DTYPE_Q8_0);
  // Of integers 32, and a scale each of keys and values.
  EXPECT_EQ(narrow.memory().block_bytes[0],
            uint64_t{TinyLlama::kLayers} * TinyLlama::kKvHeads * 64 * (8 + 2 + 32 + 2));
  // Blocks of f16 are never packed.
  EXPECT_EQ(info.packed_block_bytes[0], info.block_bytes[0]);
  EXPECT_GT(info.available_bytes, 0u);
  EXPECT_GT(info.workspace_bytes, 0u);
}

}  // namespace
}  // namespace bp::test
