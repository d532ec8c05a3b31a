// The gate of gated_mlp: for few rows applied by the product that makes gate and up, without a bit
// of difference from an op for each.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/cuda/backend.hpp"
#include "backplane/dtype.hpp"
#include "sdk/conformance/support/ops/op_case.hpp"
#include "sdk/conformance/support/program_builder.hpp"
#include "tests/backends/cuda/launched.hpp"
#include "tests/backends/cuda/small_session.hpp"
#include "tests/support/op_specs.hpp"

namespace bp::cuda {
namespace {

using namespace conformance;
using Names = std::vector<std::string>;

std::vector<float> result(const OpCase& c, bp_dtype weights, CaseForm form) {
  CaseRun run{weights};
  run.form = form;
  return run_case_outputs(kFactory, nullptr, test::op_spec_of("gated_mlp"), c, run)[0].rows;
}

void expect_same_bits(OpCase c, bp_dtype weights, uint32_t n_rows) {
  c.name = std::to_string(n_rows) + " rows";
  c.sequences = {{0, n_rows}};
  const std::vector<float> op = result(c, weights, CaseForm::kOp);
  EXPECT_FALSE(op.empty());
  EXPECT_EQ(op, result(c, weights, CaseForm::kBody)) << dtype_name(weights) << ", " << c.name;
}

OpCase mlp(uint64_t n_in, uint64_t n_ff, const char* activation, std::vector<std::string> with) {
  OpCase c;
  c.sizes = {{"n_in", n_in}, {"n_ff", n_ff}, {"n_out", 9}};
  c.attributes = {{"activation", activation}};
  c.with = std::move(with);
  return c;
}

TEST(CudaGatedMlp, HasTheBitsOfItsBody) {
  for (const uint32_t n_rows : {1u, 2u, 5u, 8u, 9u}) {
    for (const bp_dtype t : {BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F8_E4M3}) {
      expect_same_bits(mlp(40, 51, "silu", {"up"}), t, n_rows);
      expect_same_bits(mlp(1100, 7, "gelu", {"up", "gate_bias", "up_bias", "down_bias"}), t,
                       n_rows);
      expect_same_bits(mlp(24, 33, "gelu_tanh", {"gate_bias"}), t, n_rows);
    }
    for (const bp_dtype t : {BP_DTYPE_Q8_0, BP_DTYPE_Q4_0, BP_DTYPE_Q5_1}) {
      expect_same_bits(mlp(64, 96, "silu", {"up"}), t, n_rows);
      expect_same_bits(mlp(2080, 32, "relu2", {"up", "gate_bias", "up_bias"}), t, n_rows);
      expect_same_bits(mlp(32, 64, "sigmoid", {}), t, n_rows);
    }
  }
}

Names launched_for(bp_dtype gate, bp_dtype up, uint32_t n_rows) {
  constexpr uint32_t kWidth = 32, kInner = 64;
  const std::vector<float> values = normal_values("mlp", kInner * kWidth, 0.1f);
  ProgramBuilder program;
  const uint32_t x = program.add_table_rows(kWidth, normal_values("x", 4 * kWidth, 1));
  const uint32_t y = program.add_value(kWidth);
  bp_attr_gated_mlp a{};
  a.activation = BP_ACT_SILU;
  const std::vector<uint32_t> weights = {
      program.add_weight("gate", gate, {kInner, kWidth}, values),
      program.add_weight("up", up, {kInner, kWidth}, values),
      program.add_weight("down", gate, {kWidth, kInner}, values)};
  program.add_op(BP_OP_GATED_MLP, {x}, {y}, weights, ProgramBuilder::attributes(a));
  program.add_selected_output(y);
  Names names = launched(program.build(), n_rows);
  names.erase(names.begin());  // of the table
  names.pop_back();            // of the output
  return names;
}

TEST(CudaGatedMlp, FewRowsOfFloatsTakeTwoLaunches) {
  EXPECT_EQ(launched_for(BP_DTYPE_BF16, BP_DTYPE_BF16, 1),
            (Names{"product_rows_BF16_1", "product_rows_BF16_1"}));
  EXPECT_EQ(launched_for(BP_DTYPE_F32, BP_DTYPE_F32, 8),
            (Names{"product_rows_F32_8", "product_rows_F32_8"}));
  EXPECT_EQ(launched_for(BP_DTYPE_Q8_0, BP_DTYPE_Q8_0, 1),
            (Names{"prepare", "packed_rows_Q8_0_1", "prepare", "packed_rows_Q8_0_1"}));
}

TEST(CudaGatedMlp, WeightsOfTwoTypesAreGatedByALaunchOfItsOwn) {
  EXPECT_EQ(launched_for(BP_DTYPE_BF16, BP_DTYPE_F32, 2),
            (Names{"prepare", "product_skinny_BF16_8", "product_rows_F32_8", "prepare",
                   "product_skinny_BF16_8"}));
}

}  // namespace
}  // namespace bp::cuda
