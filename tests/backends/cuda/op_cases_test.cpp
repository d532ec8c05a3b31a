// Products and attention on the emulated device against the reference, with the numbers of rows,
// the widths and the types between which kernels are chosen.

#include <gtest/gtest.h>

#include "backends/cuda/backend.hpp"
#include "backends/cuda/emulator/emulated_device.hpp"
#include "backends/cuda/kernels/formats/planes.hpp"
#include "backends/cuda/plan/attend_path.hpp"
#include "backplane/dtype.hpp"
#include "backplane/plugin.hpp"
#include "backplane/reference/backend.hpp"
#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"
#include "sdk/conformance/support/ops/op_case.hpp"
#include "sdk/conformance/support/ops/random_blocks.hpp"
#include "sdk/conformance/support/program_builder.hpp"
#include "tests/support/attention_case.hpp"
#include "tests/support/op_specs.hpp"

namespace bp::cuda {
namespace {

using namespace conformance;

constexpr bp_backend_factory kReference = backend_factory<reference::ReferenceBackend>();
constexpr bp_backend_factory kCuda = backend_factory<CudaBackend>();

struct Setting {
  std::string order = "forward";  // in which the threads of a block run
  bool has_library = false;
  std::string prefill = "bf16";
  bool has_fp8_products = false;
};

class Configured {
 public:
  explicit Configured(Setting setting) : setting_(std::move(setting)) {
    set(list_[0], "fp8_products", setting_.has_fp8_products);
    set(list_[1], "matrix_library", setting_.has_library);
    set(list_[2], "order", setting_.order);
    set(list_[3], "prefill", setting_.prefill);
    params_ = make_growable<bp_params>();
    params_.n_params = 4;
    params_.params = list_;
  }
  [[nodiscard]] const bp_params* params() const { return &params_; }

 private:
  static void set(bp_param& param, const char* key, bool value) {
    param.key = to_bp_str(key);
    param.type = BP_TYPE_BOOL;
    param.i = value ? 1 : 0;
  }
  static void set(bp_param& param, const char* key, const std::string& value) {
    param.key = to_bp_str(key);
    param.type = BP_TYPE_STRING;
    param.s = to_bp_str(value);
  }

  Setting setting_;  // whose text the list names
  bp_param list_[4]{};
  bp_params params_{};
};

void expect_within(const OpSpec& spec, const OpCase& c, bp_dtype weights, bp_dtype kv,
                   const Setting& setting = {}, bp_dtype kv_values = BP_DTYPE_NONE) {
  CaseRun run{weights, kv};
  run.kv_values = kv_values;
  SCOPED_TRACE(spec.name + " " + c.name + " " + std::string(dtype_name(weights)) + " kv " +
               std::string(dtype_name(kv)) + " " + setting.order);
  const auto expected = run_case_outputs(kReference, nullptr, spec, c, run);
  const auto found = run_case_outputs(kCuda, Configured(setting).params(), spec, c, run);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t o = 0; o < found.size(); ++o) {
    const ErrorBound bound = spec.bound(weights, kv_values == BP_DTYPE_NONE ? kv : kv_values);
    EXPECT_EQ(compare(expected[o].rows, found[o].rows, bound, expected[o].width), "");
  }
}

// ---- products -----------------------------------------------------------------------------------

OpCase linear(uint32_t n_rows, uint64_t n_in, uint64_t n_out) {
  OpCase c;
  c.name =
      std::to_string(n_rows) + " rows of " + std::to_string(n_in) + " by " + std::to_string(n_out);
  c.sequences = {{0, n_rows}};
  c.sizes = {{"n_in", n_in}, {"n_out", n_out}};
  c.with = {"bias"};
  return c;
}

uint64_t whole_blocks(bp_dtype dtype, uint64_t n) {
  const uint32_t block = dtype_info(dtype).block_elements;
  return (n + block - 1) / block * block;
}

std::vector<bp_dtype> types_with_kernels_of_their_own() {
  std::vector<bp_dtype> types;
  for (bp_dtype t = 1; t < BP_DTYPE_COUNT; ++t) {
    if (is_in_planes(t) || is_plain(t)) types.push_back(t);
  }
  return types;
}

TEST(CudaProducts, FewRowsOfEveryType) {
  const OpSpec& spec = test::op_spec_of("linear");
  for (const bp_dtype t : types_with_kernels_of_their_own()) {
    expect_within(spec, linear(1, whole_blocks(t, 288), 13), t, BP_DTYPE_F32);
    expect_within(spec, linear(5, whole_blocks(t, 1100), 9), t, BP_DTYPE_F32);
    expect_within(spec, linear(1, whole_blocks(t, 4400), 33), t, BP_DTYPE_F32);
  }
}

// Cases of one name have the same weights and the same first rows.
TEST(CudaProducts, ARowHasTheSameBitsBesideOthers) {
  const OpSpec& spec = test::op_spec_of("linear");
  const auto rows_of = [&](bp_dtype t, uint32_t n_rows) {
    OpCase c = linear(n_rows, 1280, 11);
    c.name = "rows beside others";
    return run_case_outputs(kCuda, Configured({}).params(), spec, c, {t})[0].rows;
  };
  // One row of bf16 is multiplied in floats, more of them on tensor cores.
  for (const auto& [t, fewest, most] : {std::tuple{BP_DTYPE_F32, 1u, 20u},
                                        {BP_DTYPE_BF16, 2u, 32u},
                                        {BP_DTYPE_Q8_0, 1u, 8u},
                                        {BP_DTYPE_Q4_K, 1u, 8u}}) {
    const std::vector<float> few = rows_of(t, fewest), many = rows_of(t, most);
    EXPECT_EQ(few, std::vector<float>(many.begin(), many.begin() + fewest * 11)) << dtype_name(t);
  }
}

TEST(CudaProducts, ManyRowsOfEveryType) {
  const OpSpec& spec = test::op_spec_of("linear");
  for (const bp_dtype t : types_with_kernels_of_their_own()) {
    expect_within(spec, linear(9, whole_blocks(t, 160), 70), t, BP_DTYPE_F32);
    expect_within(spec, linear(66, whole_blocks(t, 256), 20), t, BP_DTYPE_F32);
  }
}

TEST(CudaProducts, ColumnsSplitAmongBlocks) {
  const OpSpec& spec = test::op_spec_of("linear");
  for (const bp_dtype t : {BP_DTYPE_BF16, BP_DTYPE_Q4_K, BP_DTYPE_Q8_0}) {
    expect_within(spec, linear(12, 1280, 33), t, BP_DTYPE_F32);
  }
}

TEST(CudaProducts, WidthsOfFloatsBesideThoseOfVectors) {
  const OpSpec& spec = test::op_spec_of("linear");
  for (const bp_dtype t : {BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_BF16}) {
    for (const uint64_t n_in : {1, 7, 31, 129, 261}) {
      expect_within(spec, linear(3, n_in, 5), t, BP_DTYPE_F32);
      expect_within(spec, linear(11, n_in, 17), t, BP_DTYPE_F32);
    }
  }
}

TEST(CudaProducts, TypesWithoutTilesAreExpanded) {
  const OpSpec& spec = test::op_spec_of("linear");
  for (const bp_dtype t : {BP_DTYPE_IQ2_XXS, BP_DTYPE_IQ3_S, BP_DTYPE_TQ2_0, BP_DTYPE_NVFP4}) {
    expect_within(spec, linear(2, 512, 11), t, BP_DTYPE_F32);
    expect_within(spec, linear(10, 512, 35), t, BP_DTYPE_F32);
  }
}

TEST(CudaProducts, ManyRowsByTheLibrary) {
  const OpSpec& spec = test::op_spec_of("linear");
  for (const bp_dtype t : {BP_DTYPE_F16, BP_DTYPE_BF16}) {
    expect_within(spec, linear(64, 136, 21), t, BP_DTYPE_F32, {"forward", true});
  }
  for (const bp_dtype t : {BP_DTYPE_Q4_K, BP_DTYPE_IQ2_S}) {
    expect_within(spec, linear(256, 256, 9), t, BP_DTYPE_F32, {"forward", true});
  }
}

TEST(CudaProducts, ManyRowsThatTheLibraryHasNoWayFor) {
  const OpSpec& spec = test::op_spec_of("linear");
  for (const bp_dtype t : {BP_DTYPE_F16, BP_DTYPE_BF16}) {
    expect_within(spec, linear(64, 523, 21), t, BP_DTYPE_F32, {"forward", true});
  }
  expect_within(spec, linear(256, 131, 9), BP_DTYPE_F8_E4M3, BP_DTYPE_F32, {"forward", true});
}

std::vector<bp_dtype> types_in_planes() {
  std::vector<bp_dtype> types;
  for (bp_dtype t = 1; t < BP_DTYPE_COUNT; ++t) {
    if (is_in_planes(t)) types.push_back(t);
  }
  return types;
}

TEST(CudaProducts, ManyRowsByInt8) {
  const OpSpec& spec = test::op_spec_of("linear");
  const Setting int8{"forward", true, "int8"};
  for (const bp_dtype t : types_in_planes()) {
    expect_within(spec, linear(9, whole_blocks(t, 160), 70), t, BP_DTYPE_F32, int8);
    expect_within(spec, linear(66, whole_blocks(t, 256), 20), t, BP_DTYPE_F32, int8);
  }
  for (const bp_dtype t : {BP_DTYPE_Q8_0, BP_DTYPE_Q5_K, BP_DTYPE_Q6_K}) {
    expect_within(spec, linear(12, 1280, 33), t, BP_DTYPE_F32, int8);  // split
    expect_within(spec, linear(257, 256, 17), t, BP_DTYPE_F32, int8);
  }
  expect_within(spec, linear(10, 32, 5), BP_DTYPE_Q4_1, BP_DTYPE_F32, int8);
}

TEST(CudaProducts, Int8InAnyOrderOfThreads) {
  const OpSpec& spec = test::op_spec_of("linear");
  for (const char* order : {"reversed", "shuffled"}) {
    for (const bp_dtype t : {BP_DTYPE_Q4_K, BP_DTYPE_Q2_K}) {
      expect_within(spec, linear(18, 768, 70), t, BP_DTYPE_F32, {order, false, "int8"});
    }
  }
}

Difference fp8_difference(uint32_t n_rows, uint64_t n_in, uint64_t n_out, bp_dtype dtype) {
  const OpSpec& spec = test::op_spec_of("linear");
  const OpCase c = linear(n_rows, n_in, n_out);
  const Configured fp8({"forward", true, "bf16", true});
  const auto expected = run_case_outputs(kReference, nullptr, spec, c, {dtype});
  const auto found = run_case_outputs(kCuda, fp8.params(), spec, c, {dtype});
  return difference(expected[0].rows, found[0].rows, spec.bound(dtype, BP_DTYPE_F32));
}

// Rounded to 3 bits behind the point, half of them twice as coarsely: more than the bound of
// `linear` allows, so that such products are a choice.
TEST(CudaProducts, ManyRowsBy8BitFloatsAreOffBySomePercent) {
  for (const bp_dtype t : {BP_DTYPE_F8_E4M3, BP_DTYPE_F8_E5M2}) {
    for (const auto& [n_rows, n_in, n_out] :
         {std::tuple{64u, 144u, 32u}, {70u, 256u, 96u}, {257u, 16u, 32u}}) {
      SCOPED_TRACE(std::to_string(n_rows) + " rows of " + std::to_string(n_in));
      const Difference d = fp8_difference(n_rows, n_in, n_out, t);
      EXPECT_LT(d.rms, 0.04);
      EXPECT_LT(d.max, 0.25);
      EXPECT_GT(d.rms, test::op_spec_of("linear").bound(t, BP_DTYPE_F32).rms);
    }
  }
}

TEST(CudaProducts, RowsAndShapesThatAreNotFor8BitFloatsKeepTheirAccuracy) {
  for (const auto& [n_rows, n_in, n_out, why] : {std::tuple{5u, 256u, 32u, "few rows"},
                                                 {63u, 256u, 32u, "tiles"},
                                                 {64u, 136u, 32u, "n_in"},
                                                 {64u, 128u, 33u, "n_out"},
                                                 {64u, 128u, 48u, "the library has no way"}}) {
    const Difference d = fp8_difference(n_rows, n_in, n_out, BP_DTYPE_F8_E4M3);
    EXPECT_TRUE(d.within) << why << ": " << d.rms << ", " << d.max;
  }
}

// q takes tiles and the accuracy of 16 bits; k and v find x in 8 bits all the same.
TEST(CudaProducts, EightBitFloatsAfterAProductThatTheLibraryHasNoWayFor) {
  const OpSpec& spec = test::op_spec_of("qkv");
  OpCase c;
  c.name = "q of 48 columns";
  c.sequences = {{0, 64}};
  c.sizes = {{"n_in", 128}};
  c.attributes = {{"n_heads", "3"}, {"n_kv_heads", "2"}, {"head_dim", "16"}, {"v_head_dim", "16"}};
  c.with = {"k_weight", "v_weight"};
  const Configured fp8({"forward", true, "bf16", true});
  const CaseRun run{BP_DTYPE_F8_E4M3};
  const auto expected = run_case_outputs(kReference, nullptr, spec, c, run);
  const auto found = run_case_outputs(kCuda, fp8.params(), spec, c, run);
  const ErrorBound bound = spec.bound(BP_DTYPE_F8_E4M3, BP_DTYPE_F32);
  EXPECT_TRUE(difference(expected[0].rows, found[0].rows, bound).within);
  for (const uint32_t o : {1u, 2u}) {
    const Difference d = difference(expected[o].rows, found[o].rows, bound);
    EXPECT_LT(d.rms, 0.04);
    EXPECT_FALSE(d.within);
  }
}

TEST(CudaProducts, AnyOrderOfThreadsGivesTheSame) {
  const OpSpec& spec = test::op_spec_of("linear");
  for (const char* order : {"reversed", "shuffled"}) {
    for (const bp_dtype t : {BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_Q5_K, BP_DTYPE_Q6_K}) {
      expect_within(spec, linear(2, 1280, 11), t, BP_DTYPE_F32, {order});
      expect_within(spec, linear(18, 768, 70), t, BP_DTYPE_F32, {order});
    }
  }
}

OpCase group_matmul(uint32_t n_rows, uint64_t n_in, uint64_t n_out, uint64_t n_matrices,
                    uint32_t n_groups, bool has_ids) {
  OpCase c;
  c.name = std::to_string(n_rows) + " rows by " + std::to_string(n_matrices) + " matrices";
  c.sequences = {{0, n_rows}};
  c.sizes = {{"n_in", n_in}, {"n_out", n_out}, {"n_matrices", n_matrices}};
  c.attributes = {{"n_groups", std::to_string(n_groups)}};
  c.with = {"bias"};
  if (has_ids) c.with.emplace_back("ids");
  return c;
}

TEST(CudaProducts, RowsChooseTheirMatrices) {
  const OpSpec& spec = test::op_spec_of("group_matmul");
  for (const bp_dtype t : types_with_kernels_of_their_own()) {
    if (!has_encoder(t)) continue;
    expect_within(spec, group_matmul(2, 256, 256, 5, 3, true), t, BP_DTYPE_F32);
  }
  for (const bp_dtype t : {BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_Q8_0}) {
    expect_within(spec, group_matmul(70, 256, 32, 4, 2, true), t, BP_DTYPE_F32);
    expect_within(spec, group_matmul(11, 96, 160, 3, 3, false), t, BP_DTYPE_F32);
  }
  for (const bp_dtype t : {BP_DTYPE_Q8_0, BP_DTYPE_Q4_1}) {
    expect_within(spec, group_matmul(70, 256, 32, 4, 2, true), t, BP_DTYPE_F32,
                  {"forward", false, "int8"});
    expect_within(spec, group_matmul(11, 96, 160, 3, 3, false), t, BP_DTYPE_F32,
                  {"forward", false, "int8"});
  }
}

// ---- attention ----------------------------------------------------------------------------------

// One x, whole for three groups and in four parts for the next.
std::vector<float> products_of_whole_and_parts(const bp_backend_factory& backend, uint32_t n_rows) {
  constexpr uint32_t kWidth = 256, kOut = 8, kWhole = 3, kParts = 4;
  ProgramBuilder program;
  const uint32_t table = program.add_weight("table", BP_DTYPE_F32, {16, kWidth},
                                            normal_values("table", 16 * kWidth, 1));
  const uint32_t x = program.add_value(kWidth);
  bp_attr_embed embed{};
  embed.scale = 1;
  program.add_op(BP_OP_EMBED, {program.add_ids()}, {x}, {table}, ProgramBuilder::attributes(embed));
  for (const auto& [n_groups, n_in] : {std::pair{kWhole, kWidth}, {kParts, kWidth / kParts}}) {
    const uint32_t w = program.add_weight("w", BP_DTYPE_BF16, {n_groups, kOut, n_in},
                                          normal_values("w", n_groups * kOut * n_in, 0.1f));
    const uint32_t y = program.add_value(n_groups * kOut);
    bp_attr_group_matmul a{};
    a.n_groups = n_groups;
    program.add_op(BP_OP_GROUP_MATMUL, {x}, {y}, {w}, ProgramBuilder::attributes(a));
    program.add_selected_output(y);
  }
  BackendSession session(backend);
  session.compile(program.build(), BackendSession::default_options(), 0);
  BatchBuilder batch;
  std::vector<int32_t> tokens;
  std::vector<uint32_t> rows;
  for (uint32_t t = 0; t < n_rows; ++t)
    tokens.push_back(static_cast<int32_t>(t)), rows.push_back(t);
  batch.add_sequence(tokens, 0, {});
  batch.add_output(0, rows, kWhole * kOut);
  batch.add_output(1, rows, kParts * kOut);
  EXPECT_TRUE(session.run(batch.build(0)).ok());
  std::vector<float> y = batch.output(0);
  for (const float value : batch.output(1)) y.push_back(value);
  return y;
}

TEST(CudaProducts, OneXWholeAndInParts) {
  for (const uint32_t n_rows : {2u, 12u}) {
    const std::vector<float> expected = products_of_whole_and_parts(kReference, n_rows);
    const std::vector<float> found = products_of_whole_and_parts(kCuda, n_rows);
    EXPECT_EQ(compare(expected, found, {0.01, 0.05}, 8), "") << n_rows;
  }
}

const test::AttentionHeads kHeads[] = {
    {"decode", 4, 2, 64, 64, {{200, 1}, {3, 1}, {64, 1}}},
    {"one_decode", 8, 1, 40, 72, {{330, 1}}},
    {"many_heads", 24, 1, 32, 32, {{100, 1}, {0, 5}}},
    {"prompt", 2, 1, 128, 128, {{0, 70}}},
    {"mixed", 3, 1, 64, 64, {{130, 4}, {0, 40}, {17, 1}}},
    {"wide", 2, 2, 256, 192, {{40, 3}, {0, 9}}},
    {"window", 4, 2, 64, 64, {{150, 40}, {70, 1}}, {{"window", "37"}}},
    {"softcap", 2, 1, 48, 48, {{70, 3}, {0, 20}}, {{"softcap", "2.0"}}},
    {"sinks", 6, 2, 64, 64, {{140, 1}, {65, 1}}, {}, true},
    {"sinks_of_prompts", 2, 1, 32, 32, {{10, 5}, {0, 20}}, {{"window", "16"}}, true},
    {"slopes", 6, 2, 64, 64, {{140, 1}, {65, 1}, {0, 9}}, {}, false, true},
    {"rounded_slopes", 3, 1, 32, 32, {{300, 2}}, {{"slope_rounding", "bf16"}}, true, true},
    {"bidirectional", 2, 2, 64, 48, {{0, 70}, {0, 3}}, {{"causal", "0"}}},
    {"long_beside_prompt", 4, 1, 32, 32, {{330, 1}, {0, 30}, {20, 1}}},
    {"few_tokens_beside_prompt", 2, 1, 48, 40, {{0, 50}, {300, 2}}, {{"softcap", "3.0"}}, true},
    {"long_beside_short", 2, 1, 64, 64, {{9, 1}, {350, 1}, {70, 1}, {3, 1}}},
};

TEST(CudaAttention, EveryShapeOfHeadsByEveryTypeOfTheCache) {
  const OpSpec& spec = test::op_spec_of("attention");
  for (const test::AttentionHeads& heads : kHeads) {
    for (const bp_dtype kv :
         {BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F8_E4M3, BP_DTYPE_Q8_0}) {
      expect_within(spec, test::attention_case(heads), BP_DTYPE_F32, kv);
    }
  }
}

// Enough query rows for blocks of 128 on the emulated device.
const test::AttentionHeads kLongPrompts[] = {
    {"long_prompts", 4, 2, 64, 64, {{30, 150}, {200, 1}, {0, 3}}},
    {"one_head", 2, 2, 128, 128, {{0, 300}, {90, 1}}, {{"softcap", "2.0"}}, true},
    {"window", 6, 2, 64, 64, {{100, 130}, {0, 50}}, {{"window", "37"}}, true},
    {"bidirectional", 2, 2, 128, 128, {{0, 290}, {0, 20}}, {{"causal", "0"}}},
};

TEST(CudaAttention, LongPromptsByLargeBlocks) {
  const OpSpec& spec = test::op_spec_of("attention");
  const emulator::EmulatedDevice device({emulator::Order::kForward, 1 << 20});
  for (const test::AttentionHeads& heads : kLongPrompts) {
    bp_attr_attention a{};
    a.n_heads = heads.n_heads;
    a.n_kv_heads = heads.n_kv_heads;
    a.head_dim = heads.head_dim;
    a.v_head_dim = heads.v_head_dim;
    uint32_t n_rows = 0;
    for (const auto& sequence : heads.sequences) n_rows += sequence.n_new;
    for (const bp_dtype kv : {BP_DTYPE_F16, BP_DTYPE_BF16}) {
      ASSERT_EQ(flash_tile_rows(a, kv, kv, n_rows, device.info()), kWideFlashRows) << heads.name;
      for (const char* order : {"forward", "shuffled"}) {
        expect_within(spec, test::attention_case(heads), BP_DTYPE_F32, kv, {order});
      }
    }
  }
}

// By tensor cores with keys in 16 bits and values in 8, else by the general kernel.
TEST(CudaAttention, CachesOfTwoTypes) {
  const OpSpec& spec = test::op_spec_of("attention");
  for (const auto& [k, v] : {std::pair{BP_DTYPE_F16, BP_DTYPE_Q8_0},
                             {BP_DTYPE_F16, BP_DTYPE_F8_E4M3},
                             {BP_DTYPE_BF16, BP_DTYPE_Q8_0},
                             {BP_DTYPE_BF16, BP_DTYPE_F8_E4M3},
                             {BP_DTYPE_F16, BP_DTYPE_BF16},
                             {BP_DTYPE_F32, BP_DTYPE_Q8_0}}) {
    for (const test::AttentionHeads& heads : kHeads) {
      SCOPED_TRACE(dtype_name(v));
      expect_within(spec, test::attention_case(heads), BP_DTYPE_F32, k, {}, v);
    }
    expect_within(spec, test::attention_case(kHeads[4]), BP_DTYPE_F32, k, {"shuffled"}, v);
  }
}

TEST(CudaAttention, AnyOrderOfThreadsGivesTheSame) {
  const OpSpec& spec = test::op_spec_of("attention");
  for (const char* order : {"reversed", "shuffled"}) {
    for (const bp_dtype kv : {BP_DTYPE_F16, BP_DTYPE_Q8_0}) {
      expect_within(spec, test::attention_case(kHeads[0]), BP_DTYPE_F32, kv, {order});
      expect_within(spec, test::attention_case(kHeads[4]), BP_DTYPE_F32, kv, {order});
    }
  }
}

}  // namespace
}  // namespace bp::cuda
