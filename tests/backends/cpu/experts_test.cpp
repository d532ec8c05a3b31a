// Mixtures of experts whose weights are of many types and whose rows crowd into few experts or
// spread over all, against the reference; and to the last bit the same in any batch.

#include "backends/cpu/stages/experts_stage.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "backends/cpu/aligned_buffer.hpp"
#include "backends/cpu/plan/planner.hpp"
#include "backplane/dtype.hpp"
#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"
#include "sdk/conformance/support/compare.hpp"
#include "sdk/conformance/support/ops/random_blocks.hpp"
#include "sdk/conformance/support/program_builder.hpp"
#include "sdk/conformance/support/reference_factory.hpp"
#include "tests/backends/cpu/isa_backends.hpp"

namespace bp::test {
namespace {

using namespace conformance;

constexpr uint32_t kVocab = 70, kIn = 256, kFf = 256, kOut = 41, kExperts = 7, kUsed = 3;

// Embedding, norm and experts, as a layer has them. Every row chooses the first n_favoured experts.
class ExpertsProgram {
 public:
  explicit ExpertsProgram(bp_dtype dtype, uint32_t n_favoured = 0, bool with_bias = false) {
    const uint32_t x = builder_.add_value(kIn), normed = builder_.add_value(kIn),
                   y = builder_.add_value(kOut);
    const uint32_t ids = builder_.add_ids();
    builder_.add_op(BP_OP_EMBED, {ids}, {x}, {floats("table", {kVocab, kIn})},
                    ProgramBuilder::attributes(bp_attr_embed{0, 1, 0}));
    bp_attr_norm norm{};
    norm.eps = 1e-5f;
    const uint32_t weight =
        builder_.add_weight("norm", BP_DTYPE_F32, {kIn}, std::vector<float>(kIn, 0.06f));
    builder_.add_op(BP_OP_NORM, {x}, {normed}, {weight}, ProgramBuilder::attributes(norm));
    std::vector<float> bias(kExperts);
    std::fill_n(bias.begin(), n_favoured, 100.0f);
    const auto shift = [&](const char* name, uint64_t width) {
      return with_bias ? floats(name, {kExperts, width}, 0.1f) : BP_NONE;
    };
    bp_attr_moe moe{};
    moe.activation = BP_ACT_SILU;
    moe.n_used = kUsed;
    moe.scale = moe.alpha = 1;
    moe.group_best = moe.normalise = 1;
    builder_.add_op(BP_OP_MOE, {normed}, {y},
                    {floats("router", {kExperts, kIn}),
                     builder_.add_weight("router_bias", BP_DTYPE_F32, {kExperts}, bias), BP_NONE,
                     matrices("gate", dtype, kFf, kIn), matrices("up", dtype, kFf, kIn),
                     matrices("down", dtype, kOut, kFf), shift("gate_bias", kFf),
                     shift("up_bias", kFf), shift("down_bias", kOut)},
                    ProgramBuilder::attributes(moe));
    builder_.add_output(y);
  }
  [[nodiscard]] const bp_program& program() { return builder_.build(); }

 private:
  uint32_t floats(const std::string& name, std::vector<uint64_t> dims, float deviation = 1) {
    const uint64_t n = std::accumulate(dims.begin(), dims.end(), uint64_t{1}, std::multiplies<>());
    return builder_.add_weight(name, BP_DTYPE_F32, dims, normal_values(name, n, deviation));
  }
  uint32_t matrices(const std::string& name, bp_dtype dtype, uint64_t n_out, uint64_t n_in) {
    const uint64_t n = kExperts * n_out * n_in;
    if (has_encoder(dtype)) {
      return builder_.add_weight(name, dtype, {kExperts, n_out, n_in}, normal_values(name, n));
    }
    std::mt19937 engine(seed_of(name));
    return builder_.add_encoded_weight(name, dtype, {kExperts, n_out, n_in},
                                       random_blocks(dtype, n, engine));
  }

  ProgramBuilder builder_;
};

// Rows of the tokens [begin, end), n_together in each step.
std::vector<float> rows_of(const bp_backend_factory& factory, const bp_program& program,
                           uint32_t begin, uint32_t end, uint32_t n_together = ~0u,
                           uint32_t n_threads = 2) {
  BackendSession session(factory);
  bp_compile_options options = BackendSession::default_options();
  options.n_threads = n_threads;
  session.compile(program, options, 0);
  std::vector<float> all;
  while (begin < end) {
    const uint32_t n = std::min(n_together, end - begin);
    std::vector<int32_t> tokens(n);
    std::iota(tokens.begin(), tokens.end(), static_cast<int32_t>(begin));
    std::vector<uint32_t> rows(n);
    std::iota(rows.begin(), rows.end(), 0u);
    BatchBuilder batch;
    batch.add_sequence(tokens, 0);
    batch.add_output(0, rows, kOut);
    const Status status = session.run(batch.build(0));
    EXPECT_TRUE(status.ok()) << status.message();
    all.insert(all.end(), batch.output(0).begin(), batch.output(0).end());
    begin += n;
  }
  return all;
}

ErrorBound bound_of(bp_dtype dtype) {
  if (dtype == BP_DTYPE_F32) return {1e-5, 1e-4};
  if (dtype == BP_DTYPE_BF16) return {8e-3, 4e-2};
  return {0.03, 0.15};
}

// The rms error of all rows, and the largest of each row by its own deviation: rows differ in size,
// and their errors with them.
std::string compare_rows(const std::vector<float>& expected, const std::vector<float>& found,
                         const ErrorBound& bound) {
  constexpr double kAny = 1e9;
  const std::string all = compare(expected, found, {bound.rms, kAny}, kOut);
  if (!all.empty()) return all;
  for (size_t first = 0; first < expected.size(); first += kOut) {
    const auto row = [&](const std::vector<float>& rows) {
      const auto begin = rows.begin() + static_cast<ptrdiff_t>(first);
      return std::vector<float>(begin, begin + kOut);
    };
    const std::string wrong = compare(row(expected), row(found), {kAny, bound.max});
    if (!wrong.empty()) return "row " + std::to_string(first / kOut) + ": " + wrong;
  }
  return "";
}

void compare_with_reference(bp_dtype dtype, uint32_t n_favoured, bool with_bias,
                            const std::vector<uint32_t>& counts) {
  ExpertsProgram experts(dtype, n_favoured, with_bias);
  for (const uint32_t n : counts) {
    const auto expected = rows_of(kReference, experts.program(), 0, n);
    for (const NamedFactory& backend : cpu_factories()) {
      const auto found = rows_of(*backend.factory, experts.program(), 0, n);
      EXPECT_EQ(compare_rows(expected, found, bound_of(dtype)), "")
          << dtype_name(dtype) << ", " << n << " rows, " << n_favoured << " favoured, "
          << backend.name;
    }
  }
}

TEST(CpuExperts, OfEveryTypeAreWithinTheBoundOfTheReference) {
  for (const bp_dtype dtype :
       {BP_DTYPE_F32, BP_DTYPE_BF16, BP_DTYPE_Q8_0, BP_DTYPE_Q4_K, BP_DTYPE_Q6_K, BP_DTYPE_MXFP4}) {
    compare_with_reference(dtype, 0, false, {1, 45});
  }
}

TEST(CpuExperts, WithAllRowsOrNoneAreWithinTheBoundOfTheReference) {
  // Three experts take every row; one takes every row and the others share the rest.
  compare_with_reference(BP_DTYPE_Q4_K, kUsed, true, {2, kVocab});
  compare_with_reference(BP_DTYPE_BF16, 1, true, {kVocab});
}

TEST(CpuExperts, GiveARowTheSameBitsInAnyBatch) {
  for (const bp_dtype dtype : {BP_DTYPE_F32, BP_DTYPE_BF16, BP_DTYPE_Q4_K, BP_DTYPE_Q8_0}) {
    ExpertsProgram experts(dtype, 1);
    for (const NamedFactory& backend : cpu_factories()) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + " on " + backend.name);
      const auto rows = [&](uint32_t n_together, uint32_t n_threads) {
        return rows_of(*backend.factory, experts.program(), 0, kVocab, n_together, n_threads);
      };
      const auto whole = rows(kVocab, 2);
      EXPECT_EQ(rows(1, 2), whole);
      EXPECT_EQ(rows(5, 1), whole);
      EXPECT_EQ(rows(33, 3), whole);
    }
  }
}

// Each phase ends with all workers waiting.
uint32_t phases_of_decode(const cpu::Plan& plan, cpu::StepContext step, uint32_t n_seqs) {
  auto batch = make_growable<bp_batch>();
  std::vector<uint32_t> starts(n_seqs + 1);
  std::iota(starts.begin(), starts.end(), 0u);
  batch.n_tokens = batch.n_seqs = n_seqs;
  batch.query_start = starts.data();
  step.batch = &batch;
  uint32_t n = 0;
  for (const auto& stage : plan.stages) {
    for (uint32_t phase = 0; phase < cpu::Stage::kPhases; ++phase) {
      stage->begin(step, phase);
      n += stage->items(step, phase).n > 0 ? 1 : 0;
    }
  }
  return n;
}

TEST(CpuExperts, TakeThreePhasesOfADecodeStep) {
  ExpertsProgram experts(BP_DTYPE_Q4_K);
  const ProgramView view(experts.program());
  cpu::WeightStore weights{cpu::Bf16Layout::kRows};
  auto planned = cpu::Planner(view, weights, cpu::Prepare::kRepack).run();
  ASSERT_TRUE(planned.ok()) << planned.status().message();
  cpu::Plan plan = std::move(planned).value();
  const cpu::Kernels& kernels = cpu::kernels_of(cpu::Isa::kScalar);
  const cpu::StageLimits limits{64, 64, &kernels};
  const size_t buffer_bytes = cpu::lay_out_buffers(plan, limits);
  auto memory = cpu::AlignedBuffer::allocate(buffer_bytes + plan.shared_bytes(limits), "a test");
  ASSERT_TRUE(memory.ok());
  std::vector<cpu::RowsView> values;
  for (const cpu::Buffer& buffer : plan.buffers) {
    values.push_back(
        {reinterpret_cast<float*>(memory.value().data() + buffer.offset), buffer.stride()});
  }
  cpu::StepContext step;
  step.kernels = &kernels;
  step.values = values;
  step.shared = memory.value().data() + buffer_bytes;
  step.n_workers = 2;
  constexpr uint32_t kEmbed = 1, kRouter = 1, kGateUpAndDown = 2;
  EXPECT_EQ(phases_of_decode(plan, step, 1), kEmbed + kRouter + kGateUpAndDown);
  EXPECT_EQ(phases_of_decode(plan, step, 4), kEmbed + kRouter + kGateUpAndDown);
  EXPECT_GT(phases_of_decode(plan, step, 40), kEmbed + kRouter + kGateUpAndDown);
}

}  // namespace
}  // namespace bp::test
