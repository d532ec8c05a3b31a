// The shipped architectures on models without files: what they read, and what they refuse.

#include "core/model/lowering.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include <nlohmann/json.hpp>

#include "backplane/op_attributes.hpp"
#include "tests/core/model/support/backend_runner.hpp"
#include "tests/core/model/support/fake_model.hpp"
#include "tests/core/model/support/family_goldens.hpp"

namespace bp::model::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<const Op*> ops_of(const LoadedModel& model, std::string_view kind) {
  std::vector<const Op*> ops;
  for (const Op& op : model.program.parts().ops) {
    if (op.schema->kind == kind) ops.push_back(&op);
  }
  return ops;
}

double attribute(const Op& op, std::string_view name) {
  return get_attribute(*find_attribute(*op.schema, name), op.attributes.data());
}

const Weight& weight_of(const LoadedModel& model, const Op& op, size_t slot = 0) {
  return model.program.parts().weights[op.weights[slot]];
}

std::vector<float> rope_table(const LoadedModel& model) {
  const bp_weight_part& part = weight_of(model, *ops_of(model, BP_OP_ROPE)[0]).parts[0];
  const auto* values = static_cast<const float*>(part.data);
  return {values, values + part.dims[0]};
}

TEST(LoweringTest, LlamaInGguf) {
  FakeModel fake("gguf");
  fill_llama(fake);
  const auto model = fake.load(source_folders(), true);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->architecture, "llama");
  EXPECT_EQ(model->n_layers, 2u);
  EXPECT_EQ(model->n_vocab, 10u);
  EXPECT_EQ(model->context_length, 64u);
  EXPECT_EQ(model->kv_bytes_per_token, 2u * 2 * (8 + 8) * 2);
  EXPECT_EQ(model->n_parameters, 10u * 32 * 2 + 32 + 2 * (2 * 32 + 32 * (32 + 16 + 16 + 32 + 144)));
  std::vector<std::string> names;
  for (const Op& op : model->program.parts().ops) names.push_back(op.name);
  EXPECT_THAT(names,
              ElementsAre("embed", "layers.0.attn_norm", "layers.0.qkv", "layers.0.rope",
                          "layers.0.attention", "layers.0.attn_output", "layers.0.ffn_norm",
                          "layers.0.gated_mlp", "layers.1.attn_norm", "layers.1.qkv",
                          "layers.1.rope", "layers.1.attention", "layers.1.select_attention",
                          "layers.1.select_residual", "layers.1.attn_output", "layers.1.ffn_norm",
                          "layers.1.gated_mlp", "output_norm", "lm_head"));
  const auto attention = ops_of(*model, BP_OP_ATTENTION);
  EXPECT_EQ(attribute(*attention[0], "kv_slot"), 0);
  EXPECT_EQ(attribute(*attention[1], "kv_slot"), 1);
  EXPECT_EQ(attribute(*attention[1], "writes_kv"), 1);
  EXPECT_FLOAT_EQ(static_cast<float>(attribute(*attention[0], "scale")), 1 / std::sqrt(8.0f));
  EXPECT_EQ(attribute(*ops_of(*model, BP_OP_ROPE)[0], "pairing"), BP_ROPE_PAIRS);
  EXPECT_THAT(rope_table(*model), ElementsAre(1.0f, 0.1f, 0.01f, 0.001f));
  const bp_program& c = model->program.c();
  EXPECT_EQ(c.values[c.outputs[0]].rows, BP_ROWS_OUTPUT);
  EXPECT_EQ(c.n_kv_groups, 1u);
}

TEST(LoweringTest, LlamaInHuggingFaceNames) {
  FakeModel fake("huggingface");
  fill_hugging_face_llama(fake);
  fake.tensor("model.layers.0.self_attn.rotary_emb.inv_freq", {4});
  const auto model = fake.load(source_folders(), true);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->architecture, "LlamaForCausalLM");
  EXPECT_EQ(attribute(*ops_of(*model, BP_OP_ROPE)[0], "pairing"), BP_ROPE_HALVES);
  // Tied: the head is the embedding table.
  EXPECT_EQ(ops_of(*model, BP_OP_LM_HEAD)[0]->weights[0],
            ops_of(*model, BP_OP_EMBED)[0]->weights[0]);
}

TEST(LoweringTest, MistralLooksBackThroughAWindow) {
  FakeModel fake("huggingface");
  fill_hugging_face_llama(fake);
  fake.metadata.strings("config.architectures", {"MistralForCausalLM"})
      .string("config.model_type", "mistral")
      .i64("config.sliding_window", 16);
  const auto model = fake.load(source_folders());
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(attribute(*ops_of(*model, BP_OP_ATTENTION)[1], "window"), 16);
  EXPECT_EQ(model->program.c().kv_groups[0].window, 16u);
  // Llama's class passes the key over.
  fake.metadata.strings("config.architectures", {"LlamaForCausalLM"})
      .string("config.model_type", "llama");
  const auto llama = fake.load(source_folders());
  ASSERT_TRUE(llama.ok()) << llama.status().message();
  EXPECT_EQ(attribute(*ops_of(*llama, BP_OP_ATTENTION)[1], "window"), 0);
}

// As model cards say to switch it on, beside what the newer form of the file says.
TEST(LoweringTest, AScalingBesideTheParametersOfPositionsWins) {
  FakeModel fake("huggingface");
  fill_hugging_face_llama(fake);
  fake.metadata.string("config.rope_parameters.rope_type", "default");
  const auto plain = fake.load(source_folders());
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  fake.metadata.string("config.rope_scaling.type", "linear").f64("config.rope_scaling.factor", 4);
  const auto scaled = fake.load(source_folders());
  ASSERT_TRUE(scaled.ok()) << scaled.status().message();
  EXPECT_FLOAT_EQ(rope_table(*scaled)[1] * 4, rope_table(*plain)[1]);
}

// The model's own context is longer.
void expect_context_limit(const FakeModel& fake, uint32_t limit) {
  const auto within = fake.load(source_folders(), false, limit);
  EXPECT_TRUE(within.ok()) << within.status().message();
  for (const uint32_t context : {0u, limit + 1}) {
    const auto beyond = fake.load(source_folders(), false, context);
    ASSERT_FALSE(beyond.ok()) << context;
    EXPECT_THAT(beyond.status().message(),
                HasSubstr("set `context` to at most " + std::to_string(limit)));
  }
}

// Queries that grow with their positions are refused, but where they do not yet.
TEST(LoweringTest, Ministral3IsReadWithinItsFirstContext) {
  FakeModel fake("huggingface");
  fill_hugging_face_llama(fake);
  fake.metadata.f64("config.rope_parameters.llama_4_scaling_beta", 0.1)
      .i64("config.rope_parameters.original_max_position_embeddings", 16);
  expect_context_limit(fake, 16);
  EXPECT_EQ(describe(*fake.load(source_folders(), false, 1))["hyperparameters"]["context_limit"],
            16);
}

TEST(LoweringTest, MistralLarge3IsReadWithinItsFirstContext) {
  const nlohmann::json form = family_golden("deepseek3")["gguf"];
  FakeModel fake("gguf");
  fill_family(fake, form["metadata"], form);
  fake.metadata.u64("deepseek2.attention.temperature_length", 32);
  EXPECT_TRUE(fake.load(source_folders()).ok());
  fake.metadata.f64("deepseek2.attention.temperature_scale", 0.1);
  expect_context_limit(fake, 32);
}

// Its table of positions ends there.
TEST(LoweringTest, Gpt2IsReadWithinItsPositions) {
  const nlohmann::json form = family_golden("gpt2")["gguf"];
  FakeModel fake("gguf");
  fill_family(fake, form["metadata"], form);
  const uint32_t own = form["metadata"]["gpt2.context_length"];
  EXPECT_TRUE(fake.load(source_folders(), false, own).ok());
  EXPECT_THAT(fake.load(source_folders(), false, own + 1).status().message(),
              HasSubstr("set `context` to at most " + std::to_string(own)));
}

TEST(LoweringTest, AScalingOfPositionsMakesTheLongestContext) {
  const auto longest = [](const char* scaling, double factor, int64_t original) {
    FakeModel fake("huggingface");
    fill_hugging_face_llama(fake);
    fake.metadata.i64("config.max_position_embeddings", 100);
    if (factor > 0) {
      fake.metadata.string("config.rope_scaling.type", scaling)
          .f64("config.rope_scaling.factor", factor);
    }
    if (original > 0) {
      fake.metadata.i64("config.rope_scaling.original_max_position_embeddings", original);
    }
    const auto model = fake.load(source_folders());
    EXPECT_TRUE(model.ok()) << model.status().message();
    EXPECT_TRUE(!model.ok() || model->context_length == 100);
    return model.ok() ? model->longest_context : 0;
  };
  EXPECT_EQ(longest("", 0, 0), 100u);
  EXPECT_EQ(longest("linear", 4, 0), 400u);
  EXPECT_EQ(longest("dynamic", 2.5, 0), 250u);
  EXPECT_EQ(longest("yarn", 4, 50), 200u);
  EXPECT_EQ(longest("yarn", 4, 25), 100u);
  EXPECT_EQ(longest("yarn", 2, 25), 100u);  // the file counts more
  EXPECT_EQ(longest("llama3", 8, 25), 100u);
}

TEST(LoweringTest, Gemma3CountsItsScalingIn) {
  const nlohmann::json form = family_golden("gemma3")["huggingface"];
  FakeModel fake("huggingface");
  fill_family(fake, form["metadata"], form);
  const auto model = fake.load(source_folders());
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_GT(*model->parameters.at("rope_factor").as_number(), 1);
  EXPECT_EQ(model->longest_context, model->context_length);
}

TEST(LoweringTest, Qwen2WindowsOfUpperLayersAreAGroupOfTheirOwn) {
  FakeModel fake("huggingface");
  fill_hugging_face_llama(fake);
  fake.metadata.strings("config.architectures", {"Qwen2ForCausalLM"})
      .i64("config.sliding_window", 16)
      .i64("config.max_window_layers", 1)
      .boolean("config.use_sliding_window", true);
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    const std::string p = layer;
    fake.tensor(p + "self_attn.q_proj.bias", {32}).tensor(p + "self_attn.k_proj.bias", {16});
    fake.tensor(p + "self_attn.v_proj.bias", {16});
  }
  auto model = fake.load(source_folders(), true);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const bp_program& c = model->program.c();
  ASSERT_EQ(c.n_kv_groups, 2u);
  EXPECT_EQ(c.kv_groups[0].window, 0u);
  EXPECT_EQ(c.kv_groups[1].window, 16u);
  EXPECT_EQ(c.kv_slots[1].group, 1u);
  fake.metadata.strings("config.layer_types", {"sliding_attention", "full_attention"});
  model = fake.load(source_folders());
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->program.c().kv_groups[0].window, 16u);
  EXPECT_EQ(model->program.c().kv_groups[1].window, 0u);
  fake.metadata.strings("config.layer_types", {"chunked_attention", "full_attention"});
  EXPECT_THAT(fake.load(source_folders()).status().message(),
              HasSubstr("\"chunked_attention\" is not supported"));
  fake.metadata.strings("config.layer_types", {"full_attention", "sliding_attention"})
      .boolean("config.use_sliding_window", false);
  model = fake.load(source_folders());
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->program.c().n_kv_groups, 1u);
}

TEST(LoweringTest, PerLayerSizes) {
  FakeModel fake("gguf");
  fill_llama(fake);
  fake.metadata.u64s("llama.feed_forward_length", {48, 16})
      .u64s("llama.attention.head_count_kv", {2, 1});
  fake.tensor("blk.1.ffn_gate.weight", {16, 32}).tensor("blk.1.ffn_up.weight", {16, 32});
  fake.tensor("blk.1.ffn_down.weight", {32, 16});
  fake.tensor("blk.1.attn_k.weight", {8, 32}).tensor("blk.1.attn_v.weight", {8, 32});
  const auto model = fake.load(source_folders());
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->program.c().kv_slots[0].n_kv_heads, 2u);
  EXPECT_EQ(model->program.c().kv_slots[1].n_kv_heads, 1u);
}

TEST(LoweringTest, BiasesWhereTheFileHasThem) {
  FakeModel fake("gguf");
  fill_llama(fake);
  fake.tensor("blk.0.attn_q.bias", {32}).tensor("blk.0.attn_k.bias", {16});
  fake.tensor("blk.0.attn_v.bias", {16}).tensor("blk.0.attn_output.bias", {32});
  fake.tensor("blk.0.ffn_gate.bias", {48}).tensor("blk.0.ffn_up.bias", {48});
  fake.tensor("blk.0.ffn_down.bias", {32});
  const auto model = fake.load(source_folders(), true);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto qkv = ops_of(*model, BP_OP_QKV);
  EXPECT_EQ(weight_of(*model, *qkv[0], 4).name, "blk.0.attn_k.bias");
  EXPECT_EQ(qkv[1]->weights[3], BP_NONE);
  EXPECT_EQ(weight_of(*model, *ops_of(*model, BP_OP_LINEAR)[0], 1).name, "blk.0.attn_output.bias");
  EXPECT_EQ(weight_of(*model, *ops_of(*model, BP_OP_GATED_MLP)[0], 5).name, "blk.0.ffn_down.bias");
}

TEST(LoweringTest, RopeScalingsOfGguf) {
  FakeModel fake("gguf");
  fill_llama(fake);
  fake.metadata.f64("llama.rope.scaling.factor", 4);
  EXPECT_THAT(rope_table(*fake.load(source_folders())),
              ElementsAre(0.25f, 0.025f, 0.0025f, 0.00025f));
  fake.metadata.f64("llama.rope.scaling.factor", 0);
  EXPECT_THAT(rope_table(*fake.load(source_folders())), ElementsAre(1.0f, 0.1f, 0.01f, 0.001f));
  fake.metadata.f64("llama.rope.scaling.factor", 4)
      .string("llama.rope.scaling.type", "yarn")
      .u64("llama.rope.scaling.original_context_length", 16)
      .f64("llama.rope.scaling.attn_factor", 0.5);
  const auto yarn = fake.load(source_folders());
  ASSERT_TRUE(yarn.ok()) << yarn.status().message();
  EXPECT_NEAR(attribute(*ops_of(*yarn, BP_OP_ROPE)[0], "magnitude"),
              0.5 * (0.1 * std::log(4.0) + 1), 1e-6);
  fake.metadata.remove("llama.rope.scaling.type").remove("llama.rope.scaling.factor");
  fake.tensor("rope_freqs.weight", {4}, BP_DTYPE_F32, {1, 1, 2, 8});
  const auto llama3 = fake.load(source_folders(), true);
  ASSERT_TRUE(llama3.ok()) << llama3.status().message();
  EXPECT_THAT(rope_table(*llama3), ElementsAre(1.0f, 0.1f, 0.005f, 0.000125f));
}

double magnitude(const FakeModel& fake) {
  const auto model = fake.load(source_folders());
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? attribute(*ops_of(*model, BP_OP_ROPE)[0], "magnitude") : 0;
}

// With the numbers of OLMo 3 and of a model that wants none.
TEST(LoweringTest, YarnAttentionFactorOfGgufIsTheMagnitude) {
  FakeModel fake("gguf");
  fill_llama(fake);
  fake.metadata.string("llama.rope.scaling.type", "yarn")
      .f64("llama.rope.scaling.factor", 8)
      .u64("llama.rope.scaling.original_context_length", 16)
      .f64("llama.rope.scaling.yarn_attn_factor", 1.2079441541679836);
  EXPECT_NEAR(magnitude(fake), 0.1 * std::log(8.0) + 1, 1e-6);
  fake.metadata.f64("llama.rope.scaling.yarn_attn_factor", 1);
  EXPECT_NEAR(magnitude(fake), 1, 1e-6);
}

// Which says 1 for the factor, -1 for the share of unscaled frequencies, where neither was set, and
// 0 for what belongs to experts.
TEST(LoweringTest, YarnOfModelsThatLlamaCppSaved) {
  FakeModel fake("gguf");
  fill_llama(fake);
  fake.metadata.string("llama.rope.scaling.type", "yarn")
      .f64("llama.rope.scaling.factor", 8)
      .u64("llama.rope.scaling.original_context_length", 16);
  const auto plain = fake.load(source_folders());
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  fake.metadata.f64("llama.rope.scaling.attn_factor", 1)
      .f64("llama.rope.scaling.yarn_log_multiplier", 0)
      .f64("llama.rope.scaling.yarn_ext_factor", -1)
      .f64("llama.rope.scaling.yarn_attn_factor", 1)
      .u64("llama.expert_count", 0)
      .u64("llama.expert_used_count", 0)
      .u64("llama.expert_feed_forward_length", 0)
      .f64("llama.expert_weights_scale", 0)
      .boolean("llama.expert_weights_norm", false);
  EXPECT_NEAR(magnitude(fake), 0.1 * std::log(8.0) + 1, 1e-6);
  const auto saved = fake.load(source_folders());
  ASSERT_TRUE(saved.ok()) << saved.status().message();
  EXPECT_EQ(rope_table(*saved), rope_table(*plain));
  fake.metadata.string("llama.rope.scaling.type", "linear").f64("llama.rope.scaling.factor", 0);
  EXPECT_NEAR(magnitude(fake), 1, 1e-6);
  fake.metadata.u64("llama.expert_count", 2).u64("llama.expert_used_count", 1);
  EXPECT_THAT(fake.load(source_folders()).status().message(), HasSubstr("n_ff_expert"));
  fake.metadata.u64("llama.expert_feed_forward_length", 8);
  EXPECT_THAT(fake.load(source_folders()).status().message(), HasSubstr("expert_scale"));
}

TEST(LoweringTest, YarnLogMultiplierOfMinistral3) {
  FakeModel fake("gguf");
  nlohmann::json form = family_golden("llama-yarn")["gguf"], metadata;
  for (const auto& [key, value] : form["metadata"].items()) {
    metadata[key.starts_with("llama.") ? "mistral3" + key.substr(5) : key] = value;
  }
  metadata["general.architecture"] = "mistral3";
  metadata["mistral3.rope.scaling.factor"] = 16.0;
  fill_family(fake, metadata, form);
  const double plain = 0.1 * std::log(16.0) + 1;
  EXPECT_NEAR(magnitude(fake), plain, 1e-6);
  fake.metadata.f64("mistral3.rope.scaling.yarn_log_multiplier", 0);
  EXPECT_NEAR(magnitude(fake), plain, 1e-6);
  fake.metadata.f64("mistral3.rope.scaling.yarn_log_multiplier", 1);
  EXPECT_NEAR(magnitude(fake), 1, 1e-6);
  fake.metadata.f64("mistral3.rope.scaling.yarn_log_multiplier", 0.5);
  EXPECT_NEAR(magnitude(fake), plain / (0.05 * std::log(16.0) + 1), 1e-6);
}

// As transformers reads mscale_all_dim and attention_factor, which become those keys: both mscale
// are the same, or there is none and queries are not scaled.
TEST(LoweringTest, YarnLogMultiplierOfDeepSeek) {
  const nlohmann::json form = family_golden("deepseek3")["gguf"];
  FakeModel fake("gguf");
  fill_family(fake, form["metadata"], form);
  fake.metadata.f64("deepseek2.rope.scaling.factor", 40);
  const auto scale = [&] {
    const auto model = fake.load(source_folders());
    return attribute(*ops_of(*model, BP_OP_ATTENTION)[0], "scale") * std::sqrt(20.0);
  };
  for (const double mscale : {1.0, 0.707}) {
    fake.metadata.f64("deepseek2.rope.scaling.yarn_log_multiplier", 0.1 * mscale);
    EXPECT_NEAR(magnitude(fake), 1, 1e-6);
    EXPECT_NEAR(scale(), std::pow(0.1 * mscale * std::log(40.0) + 1, 2), 1e-5);
  }
  fake.metadata.f64("deepseek2.rope.scaling.yarn_attn_factor", 1.5);
  EXPECT_NEAR(magnitude(fake), 1.5, 1e-6);
  fake.metadata.remove("deepseek2.rope.scaling.yarn_attn_factor");
  fake.metadata.f64("deepseek2.rope.scaling.yarn_log_multiplier", 0);
  EXPECT_NEAR(magnitude(fake), 0.1 * std::log(40.0) + 1, 1e-6);
  EXPECT_NEAR(scale(), 1, 1e-5);
  fake.metadata.remove("deepseek2.rope.scaling.yarn_log_multiplier");
  EXPECT_NEAR(magnitude(fake), 0.1 * std::log(40.0) + 1, 1e-6);
  EXPECT_NEAR(scale(), 1, 1e-5);
}

// Of 4096 tokens and 32 times as many, as converters write it.
TEST(LoweringTest, LongropeMagnitudeOfPhi35) {
  const nlohmann::json form = family_golden("phi3")["gguf"];
  FakeModel fake("gguf");
  fill_family(fake, form["metadata"], form);
  const double whole = std::sqrt(1 + std::log(32.0) / std::log(4096.0));
  fake.metadata.string("phi3.rope.scaling.type", "longrope")
      .u64("phi3.context_length", 131072)
      .u64("phi3.rope.scaling.original_context_length", 4096)
      .f64("phi3.rope.scaling.attn_factor", whole);
  EXPECT_NEAR(magnitude(fake), whole, 1e-6);
  fake.metadata.f64("phi3.rope.scaling.yarn_attn_factor", 1);
  EXPECT_NEAR(magnitude(fake), whole, 1e-6);
}

TEST(LoweringTest, RopeScalingsOfHuggingFace) {
  FakeModel older("huggingface");
  fill_hugging_face_llama(older);
  older.metadata.f64("config.rope_theta", 500000)
      .string("config.rope_scaling.rope_type", "llama3")
      .f64("config.rope_scaling.factor", 8)
      .f64("config.rope_scaling.low_freq_factor", 1)
      .f64("config.rope_scaling.high_freq_factor", 4)
      .i64("config.rope_scaling.original_max_position_embeddings", 8192)
      .i64("config.head_dim", 8);
  FakeModel newer("huggingface");
  fill_hugging_face_llama(newer);
  newer.metadata.f64("config.rope_parameters.rope_theta", 500000)
      .string("config.rope_parameters.rope_type", "llama3")
      .f64("config.rope_parameters.factor", 8)
      .f64("config.rope_parameters.low_freq_factor", 1)
      .f64("config.rope_parameters.high_freq_factor", 4)
      .i64("config.rope_parameters.original_max_position_embeddings", 8192);
  const auto a = older.load(source_folders()), b = newer.load(source_folders());
  ASSERT_TRUE(a.ok()) << a.status().message();
  ASSERT_TRUE(b.ok()) << b.status().message();
  // The fourth wavelength is beyond 8192 tokens, the third between 2048 and 8192.
  const std::vector<float> table = rope_table(*a);
  EXPECT_FLOAT_EQ(table[1], std::pow(500000.0f, -0.25f));
  EXPECT_FLOAT_EQ(table[3], std::pow(500000.0f, -0.75f) / 8);
  EXPECT_EQ(table, rope_table(*b));
}

TEST(LoweringTest, YarnFactorFromTheContexts) {
  FakeModel fake("huggingface");
  fill_hugging_face_llama(fake);
  fake.metadata.string("config.rope_scaling.type", "yarn")
      .i64("config.rope_scaling.original_max_position_embeddings", 16);
  const auto model = fake.load(source_folders());
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_NEAR(attribute(*ops_of(*model, BP_OP_ROPE)[0], "magnitude"), 0.1 * std::log(4.0) + 1,
              1e-6);
}

TEST(LoweringTest, KeysLeftOutMeanWhatTheFamilysClassSays) {
  struct LeftOut {
    const char* family;
    const char* key;
    const char* parameter;
    nlohmann::ordered_json value;
  };
  const LeftOut kLeftOut[] = {
      {"gemma2", "config.query_pre_attn_scalar", "attention_scalar", 256.0},
      {"gemma3", "config.query_pre_attn_scalar", "attention_scalar", 256.0},
      {"granite", "config.attention_multiplier", "attention_scale", {1.0, 1.0, 1.0}},
      {"deepseek3", "config.routed_scaling_factor", "expert_scale", 2.5},
      {"deepseek3", "config.norm_topk_prob", "expert_normalise", true},
      {"glm4-moe-lite", "config.routed_scaling_factor", "expert_scale", 1.8},
      {"glm4-moe-lite", "config.norm_topk_prob", "expert_normalise", true},
      {"deepseek2", "config.routed_scaling_factor", "expert_scale", 1.0},
  };
  for (const LeftOut& left_out : kLeftOut) {
    nlohmann::json form = family_golden(left_out.family)["huggingface"];
    form["metadata"].erase(left_out.key);
    FakeModel fake("huggingface");
    fill_family(fake, form["metadata"], form);
    const auto model = fake.load(source_folders());
    ASSERT_TRUE(model.ok()) << model.status().message();
    EXPECT_EQ(describe(*model)["hyperparameters"][left_out.parameter], left_out.value)
        << left_out.family << ' ' << left_out.key;
  }
}

TEST(LoweringTest, FalconsAlibiIsASlopeOfEachHead) {
  const nlohmann::json form = family_golden("falcon-alibi")["huggingface"];
  FakeModel fake("huggingface");
  fill_family(fake, form["metadata"], form);
  const auto model = fake.load(source_folders(), true);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_TRUE(ops_of(*model, BP_OP_ROPE).empty());
  const Op& attention = *ops_of(*model, BP_OP_ATTENTION)[0];
  EXPECT_EQ(attribute(attention, "slope_rounding"), BP_SLOPES_BF16);
  const bp_weight_part& part = weight_of(*model, attention, 1).parts[0];
  ASSERT_EQ(part.dims[0], 6u);
  const auto* slopes = static_cast<const float*>(part.data);
  EXPECT_THAT(std::vector<float>(slopes, slopes + 6),
              ElementsAre(0.25f, 0.0625f, 0.015625f, 0.00390625f, 0.5f, 0.125f));
}

TEST(LoweringTest, UnusedTensorsAreWarningsOrErrors) {
  FakeModel fake("gguf");
  fill_llama(fake);
  fake.tensor("blk.0.extra.weight", {4}).tensor("blk.0.attn_rot_embd.weight", {4});
  const auto model = fake.load(source_folders());
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_THAT(model->warnings,
              ElementsAre("tensors that the architecture does not use: blk.0.extra.weight"));
  const auto strict = fake.load(source_folders(), true);
  ASSERT_FALSE(strict.ok());
  EXPECT_THAT(strict.status().message(), HasSubstr("does not use: blk.0.extra.weight"));
}

TEST(LoweringTest, RefusesScalesOfWeights) {
  FakeModel fake("gguf");
  fill_llama(fake);
  fake.tensor("blk.0.attn_q.input_scale", {1}).tensor("blk.0.extra.scale", {1});
  const auto model = fake.load(source_folders());
  EXPECT_TRUE(model.ok()) << model.status().message();
  fake.tensor("blk.0.attn_q.scale", {1});
  EXPECT_THAT(fake.load(source_folders()).status().message(),
              HasSubstr("tensor 'blk.0.attn_q.scale' scales 'blk.0.attn_q.weight', which is not"));
  const nlohmann::json form = family_golden("mixtral")["gguf"];
  FakeModel experts("gguf");
  fill_family(experts, form["metadata"], form);
  ASSERT_TRUE(experts.load(source_folders()).ok());
  experts.tensor("blk.1.ffn_down_exps.scale", {form["metadata"]["llama.expert_count"]});
  EXPECT_THAT(experts.load(source_folders()).status().message(),
              HasSubstr("tensor 'blk.1.ffn_down_exps.scale' scales"));
}

TEST(LoweringTest, RefusesScalesOfWeightsInHuggingFacesNames) {
  const std::string weight = "model.layers.1.self_attn.k_proj.weight";
  for (const std::string end : {"_scale", "_scale_inv", "_scales", "_scale_2"}) {
    FakeModel fake("huggingface");
    fill_hugging_face_llama(fake);
    fake.tensor("model.layers.1.self_attn.k_proj.input_scale", {1});
    fake.tensor("model.layers.1.self_attn.k_proj.k_scale", {1});
    EXPECT_TRUE(fake.load(source_folders()).ok());
    fake.tensor(weight + end, {1});
    EXPECT_THAT(fake.load(source_folders()).status().message(),
                HasSubstr("tensor '" + weight + end + "' scales '" + weight + "', which is not"));
  }
}

TEST(LoweringTest, Description) {
  FakeModel fake("gguf");
  fill_llama(fake);
  const auto model = fake.load(source_folders());
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto json = describe(*model);
  EXPECT_EQ(json["format"], "fake");
  EXPECT_EQ(json["architecture"], "llama");
  EXPECT_EQ(json["hyperparameters"]["n_layers"], 2);
  EXPECT_EQ(json["hyperparameters"]["n_kv_heads"].dump(), "[2,2]");
  EXPECT_FALSE(json["hyperparameters"].contains("dialect"));
  EXPECT_FALSE(json["hyperparameters"].contains("rope_attention_factor"));
  EXPECT_EQ(json["tensors"][0].dump(),
            R"({"name":"token_embd.weight","dtype":"f32","dims":[10,32]})");
  EXPECT_EQ(json["memory"]["kv_bytes_per_token"], 128);
}

struct Refusal {
  const char* what;
  std::function<void(FakeModel&)> change;
  std::vector<std::string> pieces;  // of the message
};

TEST(LoweringTest, RefusesModelsThatDoNotFit) {
  const std::vector<Refusal> refusals = {
      {"wrong shape",
       [](FakeModel& m) {
         m.tensor("blk.1.attn_k.weight", {32, 32});
       },
       {"tensor 'blk.1.attn_k.weight' (weight attn_k, ", "include/decoder.yaml:",
        "has shape [32, 32], expected [n_kv_heads[i] * head_dim, dim] = [16, 32]"}},
      {"wrong number of dimensions",
       [](FakeModel& m) {
         m.tensor("output_norm.weight", {2, 32});
       },
       {"'output_norm.weight'", "has shape [2, 32], expected [dim] = [32]"}},
      {"missing tensor",
       [](FakeModel& m) { m.remove("blk.1.ffn_up.weight"); },
       {"missing tensor for weight ffn_up (", "moe.yaml:", "names tried: blk.1.ffn_up.weight"}},
      {"one bias without the others",
       [](FakeModel& m) { m.tensor("blk.0.attn_q.bias", {32}); },
       {"missing tensor for weight attn_k_bias (", "decoder.yaml:"}},
      {"type of indices",
       [](FakeModel& m) { m.tensor("blk.0.ffn_norm.weight", {32}, BP_DTYPE_I32); },
       {"'blk.0.ffn_norm.weight'", "has type i32, which no weight has"}},
      {"rope_freqs of another type",
       [](FakeModel& m) { m.tensor("rope_freqs.weight", {4}, BP_DTYPE_F16); },
       {"tensor 'rope_freqs.weight'", "rope.yaml:", "must be a row of f32"}},
      {"missing hyper-parameter",
       [](FakeModel& m) { m.metadata.remove("llama.block_count"); },
       {"hyper-parameter n_layers (", "decoder.yaml:", "missing; keys tried: llama.block_count"}},
      {"wrong type",
       [](FakeModel& m) { m.metadata.string("llama.embedding_length", "32"); },
       {"hyper-parameter dim (", "\"llama.embedding_length\": expected i64, found string"}},
      {"an array for a scalar",
       [](FakeModel& m) {
         m.metadata.u64s("llama.embedding_length", {32, 32});
       },
       {"hyper-parameter dim (", "found an array"}},
      {"zero",
       [](FakeModel& m) { m.metadata.u64("llama.block_count", 0); },
       {"hyper-parameter n_layers (", "must be positive and at most 4096, found 0"}},
      {"negative",
       [](FakeModel& m) { m.metadata.i64("llama.embedding_length", -32); },
       {"hyper-parameter dim (", "must be positive and at most 1048576, found -32"}},
      {"beyond the cap",
       [](FakeModel& m) { m.metadata.u64("llama.block_count", 100000); },
       {"hyper-parameter n_layers (",
        "metadata \"llama.block_count\": must be positive and at most 4096, found 100000"}},
      {"beyond all numbers",
       [](FakeModel& m) { m.metadata.u64("llama.context_length", UINT64_MAX); },
       {"hyper-parameter context_length (", "expected i64, found u64 18446744073709551615"}},
      {"epsilon not a number",
       [](FakeModel& m) { m.metadata.f64("llama.attention.layer_norm_rms_epsilon", NAN); },
       {"hyper-parameter norm_eps (", "must be positive and at most 1, found nan"}},
      {"more rotated columns than a head has",
       [](FakeModel& m) { m.metadata.u64("llama.rope.dimension_count", 10); },
       {"hyper-parameter rope_dims (",
        "metadata \"llama.rope.dimension_count\": must be positive and at most 8, found 10"}},
      {"odd number of rotated columns",
       [](FakeModel& m) { m.metadata.u64("llama.rope.dimension_count", 7); },
       {"rope inv_freq (", "n_dims must be even and positive, not 7"}},
      {"unknown scaling",
       [](FakeModel& m) { m.metadata.string("llama.rope.scaling.type", "longrop"); },
       {"rope inv_freq (", "scaling 'longrop' is unknown", "nearest: longrope"}},
      {"heads that do not divide",
       [](FakeModel& m) {
         m.metadata.u64s("llama.attention.head_count_kv", {2, 3});
         m.tensor("blk.1.attn_k.weight", {24, 32}).tensor("blk.1.attn_v.weight", {24, 32});
       },
       {"does not satisfy `n_heads[i] % n_kv_heads[i] == 0` (", "llama.yaml:",
        "i = 1, n_heads = [4, 4] (llama.attention.head_count), "
        "n_kv_heads = [2, 3] (llama.attention.head_count_kv)"}},
      {"an array not of n_layers",
       [](FakeModel& m) {
         m.metadata.u64s("llama.feed_forward_length", {48, 48, 48});
       },
       {"hyper-parameter n_ff (",
        "metadata \"llama.feed_forward_length\": has 3 elements, expected one for each of the 2 "
        "layers"}},
      {"a bad element",
       [](FakeModel& m) {
         m.metadata.u64s("llama.feed_forward_length", {48, 0});
       },
       {"hyper-parameter n_ff (",
        "metadata \"llama.feed_forward_length\": element 1: must be positive and at most "
        "16777216, found 0"}},
      {"another vocabulary",
       [](FakeModel& m) { m.metadata.u64("llama.vocab_size", 11); },
       {"'token_embd.weight'", "has shape [10, 32], expected [n_vocab, dim] = [11, 32]"}},
      {"neither key nor tensor for the vocabulary",
       [](FakeModel& m) { m.remove("token_embd.weight"); },
       {"hyper-parameter n_vocab (", "cannot tell rows(embedding)"}},
      {"unknown architecture",
       [](FakeModel& m) { m.metadata.string("general.architecture", "lama"); },
       {"architecture 'lama' is unknown; nearest: llama"}},
      {"no architecture",
       [](FakeModel& m) { m.metadata.remove("general.architecture"); },
       {"names no architecture (tried: general.architecture)"}},
      {"architecture of a wrong type",
       [](FakeModel& m) { m.metadata.u64("general.architecture", 1); },
       {"general.architecture must be a string"}},
  };
  for (const Refusal& refusal : refusals) {
    FakeModel fake("gguf");
    fill_llama(fake);
    refusal.change(fake);
    const auto model = fake.load(source_folders());
    ASSERT_FALSE(model.ok()) << refusal.what;
    for (const std::string& piece : refusal.pieces) {
      EXPECT_THAT(model.status().message(), HasSubstr(piece)) << refusal.what;
    }
    EXPECT_EQ(model.status().message().find('\n'), std::string::npos) << refusal.what;
  }
}

TEST(LoweringTest, RefusesActivationsItDoesNotKnow) {
  FakeModel fake("huggingface");
  fill_hugging_face_llama(fake);
  fake.metadata.string("config.hidden_act", "mish");
  const auto model = fake.load(source_folders());
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(
      model.status().message(),
      AllOf(HasSubstr("hyper-parameter activation ("),
            HasSubstr(
                "metadata \"config.hidden_act\": \"mish\" is not supported (supported: gelu, ")));
}

TEST(LoweringTest, RefusesAnUnknownDialect) {
  const FakeModel fake("onnx");
  const auto model = fake.load(source_folders());
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(model.status().message(), HasSubstr("dialect 'onnx' is unknown"));
}

}  // namespace
}  // namespace bp::model::test
