// Which tensor gets what: the published rules.

#include "core/quantize/mixture.hpp"

#include <gtest/gtest.h>

#include <string>

#include "backplane/dtype.hpp"

namespace bp::quantize {
namespace {

constexpr uint64_t kWidth = 1024;

std::string type_of(const char* mixture, std::string_view tensor, const ModelShape& shape,
                    uint64_t width = kWidth) {
  const auto found = find_mixture(mixture);
  EXPECT_TRUE(found.ok()) << mixture;
  return std::string(dtype_name(choose_type(**found, shape, tensor, width, false).dtype));
}

ModelShape of_layers(uint32_t n_layers) {
  ModelShape shape;
  shape.n_layers = n_layers;
  return shape;
}

TEST(Mixture, GivesMoreBitsToTheOuterEighthsAndEveryThirdLayer) {
  const ModelShape shape = of_layers(32);
  const auto down = [&](int layer) {
    return type_of("Q4_K_M", "blk." + std::to_string(layer) + ".ffn_down.weight", shape);
  };
  for (const int layer : {0, 3, 6, 9, 27, 28, 31}) EXPECT_EQ(down(layer), "q6_K") << layer;
  for (const int layer : {4, 5, 7, 8, 10, 26}) EXPECT_EQ(down(layer), "q4_K") << layer;
  EXPECT_EQ(type_of("Q4_K_M", "blk.4.attn_q.weight", shape), "q4_K");
  EXPECT_EQ(type_of("Q3_K_M", "blk.1.attn_v.weight", shape), "q5_K");
  EXPECT_EQ(type_of("Q3_K_M", "blk.2.attn_v.weight", shape), "q4_K");
  EXPECT_EQ(type_of("Q4_K_S", "blk.3.ffn_down.weight", shape), "q5_K");
  EXPECT_EQ(type_of("Q4_K_S", "blk.4.ffn_down.weight", shape), "q4_K");
}

TEST(Mixture, EmbeddingsThatServeAsOutputHaveItsType) {
  ModelShape shape = of_layers(16);
  EXPECT_EQ(type_of("Q4_K_M", "output.weight", shape), "q6_K");
  EXPECT_EQ(type_of("Q4_K_M", "token_embd.weight", shape), "q4_K");
  EXPECT_EQ(type_of("IQ2_XS", "output.weight", shape), "q5_K");
  EXPECT_EQ(type_of("IQ2_XS", "token_embd.weight", shape), "q2_K");
  EXPECT_EQ(type_of("Q8_0", "output.weight", shape), "q8_0");
  EXPECT_EQ(type_of("F16", "output.weight", shape), "f16");
  shape.has_output = false;
  EXPECT_EQ(type_of("Q4_K_M", "token_embd.weight", shape), "q6_K");
  EXPECT_EQ(type_of("IQ2_XS", "token_embd.weight", shape), "q5_K");
}

TEST(Mixture, AsksForHeadsExpertsAndImportance) {
  ModelShape shape = of_layers(16);
  const char* v = "blk.8.attn_v.weight";
  EXPECT_EQ(type_of("Q2_K", v, shape), "q3_K");
  EXPECT_EQ(type_of("IQ3_XXS", v, shape), "iq3_s");
  shape.has_importance = true;
  EXPECT_EQ(type_of("IQ3_XXS", v, shape), "iq3_xxs");
  EXPECT_EQ(type_of("Q4_0", "blk.0.ffn_down.weight", shape), "q4_1");
  shape.heads_per_kv_head = 4;
  EXPECT_EQ(type_of("Q2_K", v, shape), "q4_K");
  EXPECT_EQ(type_of("IQ3_XXS", v, shape), "q4_K");
  shape.n_experts = 8;
  EXPECT_EQ(type_of("Q2_K", v, shape), "q8_0");
  EXPECT_EQ(type_of("Q4_K_M", "blk.8.attn_output.weight", shape), "q5_K");
}

TEST(Mixture, FallsBackWhereNoBlockDividesTheRows) {
  const ModelShape shape = of_layers(16);
  EXPECT_EQ(type_of("Q4_K_M", "blk.8.ffn_up.weight", shape, 96), "q5_0");
  EXPECT_EQ(type_of("Q6_K", "blk.8.ffn_up.weight", shape, 96), "q8_0");
  EXPECT_EQ(type_of("IQ2_XS", "blk.8.ffn_up.weight", shape, 96), "iq4_nl");
  EXPECT_EQ(type_of("Q4_0", "blk.8.ffn_up.weight", shape, 100), "f16");
  const auto mixture = find_mixture("Q5_K_M");
  ASSERT_TRUE(mixture.ok());
  EXPECT_EQ(choose_type(**mixture, shape, "blk.8.ffn_up.weight", 96, false).wanted, BP_DTYPE_Q5_K);
}

TEST(Mixture, LeavesNormsBiasesAndRoutersAsTheyAre) {
  for (const char* name :
       {"blk.0.attn_norm.weight", "blk.0.ffn_gate_inp.weight", "blk.0.attn_q.bias",
        "position_embd.weight", "blk.0.ssm_conv1d.weight"}) {
    EXPECT_FALSE(is_quantised(name, 2)) << name;
  }
  EXPECT_FALSE(is_quantised("blk.0.ffn_up.weight", 1));
  EXPECT_TRUE(is_quantised("blk.0.ffn_up.weight", 2));
  EXPECT_TRUE(is_quantised("blk.0.ffn_up_exps.weight", 3));
}

TEST(Mixture, NamesAreFoundInAnyCase) {
  for (const std::string& name : mixture_names()) {
    const auto found = find_mixture(name);
    ASSERT_TRUE(found.ok()) << name;
    EXPECT_EQ((*found)->name, name);
  }
  EXPECT_EQ((*find_mixture("q4_k_m"))->name, "Q4_K_M");
  const auto unknown = find_mixture("q4_k_n");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.status().message().find("nearest: Q4_K_"), std::string::npos);
}

}  // namespace
}  // namespace bp::quantize
