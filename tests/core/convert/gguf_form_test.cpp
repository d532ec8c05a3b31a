// Models in Hugging Face's names written as GGUF files: what they compute does not change, and
// names, shapes and metadata are those of llama.cpp's converter, which the goldens hold.

#include "core/convert/gguf_form.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "backplane/plugin.hpp"
#include "core/convert/quantize_file.hpp"
#include "tests/core/model/support/backend_runner.hpp"
#include "tests/core/model/support/family_goldens.hpp"

namespace bp::convert {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using namespace bp::model::test;

constexpr double kBound = 1e-5;  // of rms(difference) / deviation(logits)

// Words of a tokenizer that GGUF has a form for.
constexpr const char* kTokenizer = R"({
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
  "decoder": {"type": "ByteLevel"}
})";

// Models whose configuration GGUF files cannot hold, and what the refusal speaks of.
const std::map<std::string, std::string> kRefused = {
    {"command-r7b-biases", "window"},
    {"deepseek3-biases", "turned_pairing"},
    {"ernie4_5-moe", "dense_layer"},
    {"falcon-alibi", "slope_rounding"},
    {"falcon-rw", "two weights of layer 0"},
    {"falcon-sequential", "two weights of layer 0"},
    {"gpt2-by-layer", "attention_scale"},
    {"gpt2-unscaled", "attention_scale"},
    {"lfm2", "conv.in_proj.bias"},
    {"phi2-norms", "q_layernorm"},
    {"qwen2", "window"},
    {"qwen2moe-window", "window"},
    {"qwen3", "window"},
    {"qwen3moe-window", "dense_layer"},
    {"qwen3next", "dense_layer"},
    {"smollm3-window", "window"},
};

class GgufFormTest : public ::testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    auto runner = BackendRunner::create("reference");
    ASSERT_TRUE(runner.ok()) << runner.status().message();
    runner_ = *std::move(runner);
  }
  static void TearDownTestSuite() { runner_.reset(); }

  static std::vector<float> logits(const model::LoadedModel& loaded, std::vector<int32_t> tokens) {
    static const auto bodies = model::OpBodies::load(source_folders().ops);
    const auto program = model::fit_to_backend(loaded.program, *bodies, runner_->check());
    EXPECT_TRUE(program.ok()) << program.status().message();
    if (!program.ok()) return {};
    const auto n = static_cast<uint32_t>(tokens.size());
    const auto rows = runner_->decoded_logits(*program, tokens, n);
    EXPECT_TRUE(rows.ok()) << rows.status().message();
    return rows.ok() ? rows->back() : std::vector<float>();
  }

  static inline std::unique_ptr<BackendRunner> runner_;
};

// What the converter writes too has its value.
void compare_metadata(const model::ModelFile& file, const json& expected) {
  for (const auto& [key, value] : expected.items()) {
    const bp_metadata* entry = file.find_metadata(key);
    if (entry == nullptr) {
      // Readers take the same where it is absent.
      const bool is_neutral =
          value == "none" || value == 1 || value == 0 || key.ends_with("freq_base");
      EXPECT_TRUE(is_neutral) << key << " is missing: " << value;
      continue;
    }
    if (key == "falcon.context_length" || key == "chatglm.context_length") continue;  // made up
    const MetadataView one({entry, 1});
    if (value.is_array()) {
      ASSERT_EQ(entry->n, value.size()) << key;
      for (size_t i = 0; i < value.size(); ++i) {
        const bool is_flag = value[i].is_boolean();
        EXPECT_EQ(is_flag ? (*one.array<bool>(key))[i] : (*one.array<int64_t>(key))[i],
                  is_flag ? value[i].get<bool>() : value[i].get<int64_t>())
            << key;
      }
    } else if (value.is_string()) {
      EXPECT_EQ(*one.get<std::string_view>(key), value.get<std::string>()) << key;
    } else if (value.is_boolean()) {
      EXPECT_EQ(*one.get<bool>(key), value.get<bool>()) << key;
    } else {
      EXPECT_NEAR(*one.get<double>(key), value.get<double>(), 1e-6 * value.get<double>()) << key;
    }
  }
}

void compare_tensors(const model::ModelFile& file, const json& expected) {
  std::set<std::string> names;
  for (const auto& [name, shape] : expected.items()) {
    names.insert(name);
    const bp_tensor* tensor = file.find_tensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(json(model::dims_of(*tensor)), shape) << name;
  }
  for (const bp_tensor& tensor : file.tensors()) {
    EXPECT_TRUE(names.contains(std::string(view(tensor.name)))) << view(tensor.name);
  }
}

TEST_P(GgufFormTest, ComputesTheSame) {
  const json golden = family_golden(GetParam());
  FakeModel fake("huggingface");
  fill_family(fake, golden["huggingface"]["metadata"], golden["huggingface"]);
  auto source = fake.open();
  ASSERT_TRUE(source.ok()) << source.status().message();
  const auto form = GgufForm::create(**source, source_folders(), nullptr);
  if (const auto refused = kRefused.find(GetParam()); refused != kRefused.end()) {
    ASSERT_FALSE(form.ok());
    EXPECT_NE(form.status().message().find(refused->second), std::string::npos)
        << form.status().message();
    return;
  }
  ASSERT_TRUE(form.ok()) << form.status().message();
  if (golden.contains("gguf")) {
    compare_metadata((*form)->file(), golden["gguf"]["metadata"]);
    // Weights stay apart, which the converter can pack.
    const bool is_packed = GetParam().ends_with("-fused");
    if (!is_packed) compare_tensors((*form)->file(), golden["gguf"]["tensors"]);
  }
  const std::string path =
      (fs::path(::testing::TempDir()) / ("gguf-form-" + GetParam() + ".gguf")).string();
  QuantizeOptions options;
  options.mixture = *quantize::find_mixture("F32");
  options.folders = source_folders();
  const auto report = quantize_file(**source, path, options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  const auto before = fake.load(source_folders(), true);
  const auto after = load_gguf(path);
  fs::remove(path);
  ASSERT_TRUE(before.ok()) << before.status().message();
  ASSERT_TRUE(after.ok()) << after.status().message();
  EXPECT_TRUE(after->warnings.empty()) << after->warnings[0];
  const auto all = golden["tokens"].get<std::vector<int32_t>>();
  for (const ptrdiff_t n : {1, 33}) {
    const std::vector<int32_t> tokens(all.begin(), all.begin() + n);
    const auto expected = logits(*before, tokens), found = logits(*after, tokens);
    ASSERT_EQ(expected.size(), found.size());
    EXPECT_LE(relative_rms(found, expected), kBound) << n << " tokens";
  }
}

// Its own context is longer than the first, and llama.cpp reads its keys under this name only.
TEST(GgufFormOfMinistral3Test, HasTheKeysOfItsQueriesAndPositions) {
  const json golden = family_golden("mistral3");
  FakeModel fake("huggingface");
  fill_family(fake, golden["huggingface"]["metadata"], golden["huggingface"]);
  const std::string rope = "config.text_config.rope_parameters.";
  fake.metadata.string(rope + "rope_type", "yarn")
      .f64(rope + "factor", 16)
      .f64(rope + "mscale", 1)
      .f64(rope + "mscale_all_dim", 1)
      .f64(rope + "llama_4_scaling_beta", 0.1)
      .i64(rope + "original_max_position_embeddings", 16);
  auto source = fake.open();
  ASSERT_TRUE(source.ok()) << source.status().message();
  const auto form = GgufForm::create(**source, source_folders(), nullptr);
  ASSERT_TRUE(form.ok()) << form.status().message();
  const MetadataView metadata = (*form)->file().metadata();
  EXPECT_EQ(*metadata.get<std::string_view>("general.architecture"), "mistral3");
  EXPECT_EQ(*metadata.get<double>("mistral3.rope.scaling.yarn_log_multiplier"), 1);
  EXPECT_NEAR(*metadata.get<double>("mistral3.attention.temperature_scale"), 0.1, 1e-7);
}

// Which readers of GGUF multiply the usual magnitude by.
TEST(GgufFormOfYarnTest, HasTheShareOfItsAttentionFactor) {
  const json golden = family_golden("llama-yarn");
  FakeModel fake("huggingface");
  fill_family(fake, golden["huggingface"]["metadata"], golden["huggingface"]);
  for (const double factor : {1.0, 1.5}) {
    fake.metadata.f64("config.rope_parameters.attention_factor", factor);
    const auto source = fake.open();
    ASSERT_TRUE(source.ok()) << source.status().message();
    const auto form = GgufForm::create(**source, source_folders(), nullptr);
    ASSERT_TRUE(form.ok()) << form.status().message();
    EXPECT_NEAR(*(*form)->file().metadata().get<double>("llama.rope.scaling.attn_factor"),
                factor / (0.1 * std::log(4.0) + 1), 1e-6);
  }
}

// In the words of a model that is loaded, whatever layer it is in.
TEST(GgufFormOfScaledWeightsTest, IsRefused) {
  for (const std::string layer : {"model.embed_tokens", "model.layers.1.mlp.down_proj"}) {
    FakeModel fake("huggingface");
    fill_hugging_face_llama(fake);
    fake.tensor("model.layers.0.self_attn.q_proj.input_scale", {1}).tensor("extra.scale", {1});
    const auto source = fake.open();
    ASSERT_TRUE(source.ok()) << source.status().message();
    EXPECT_TRUE(GgufForm::create(**source, source_folders(), nullptr).ok());
    fake.tensor(layer + ".scale", {1});
    const auto scaled = fake.open();
    ASSERT_TRUE(scaled.ok()) << scaled.status().message();
    const auto form = GgufForm::create(**scaled, source_folders(), nullptr);
    ASSERT_FALSE(form.ok());
    EXPECT_NE(form.status().message().find("tensor '" + layer + ".scale' scales"),
              std::string::npos)
        << form.status().message();
    EXPECT_EQ(form.status().message(), fake.load(source_folders()).status().message());
  }
}

std::vector<std::string> notes_of(const FakeModel& fake) {
  QuantizeOptions options;
  options.mixture = *quantize::find_mixture("F32");
  options.folders = source_folders();
  const auto source = fake.open();
  EXPECT_TRUE(source.ok()) << source.status().message();
  const auto report = plan_quantize(**source, options);
  EXPECT_TRUE(report.ok()) << report.status().message();
  return report.ok() ? report->notes : std::vector<std::string>();
}

void expect_note(const FakeModel& fake, const std::string& part) {
  const auto notes = notes_of(fake);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find(part), std::string::npos) << notes[0];
}

TEST(GgufFormNotesTest, SayWhatIsLeftOut) {
  FakeModel fake("huggingface");
  fill_hugging_face_llama(fake);
  fake.tensor("model.layers.1.self_attn.rotary_emb.inv_freq", {4});  // that is ignored
  expect_note(fake, "neither tokenizer.json nor tokenizer.model");
  fake.metadata.string("tokenizer.huggingface.json", kTokenizer);
  EXPECT_TRUE(notes_of(fake).empty());
  fake.tensor("model.layers.0.self_attn.gate.weight", {4}).tensor("model.scaler", {4});
  expect_note(fake,
              "that the architecture does not use: model.layers.0.self_attn.gate.weight, "
              "model.scaler; they are left");
}

TEST(GgufFormNotesTest, SayWhereDynamicScalingBegins) {
  FakeModel fake("huggingface");
  fill_hugging_face_llama(fake);
  fake.metadata.string("tokenizer.huggingface.json", kTokenizer)
      .string("config.rope_scaling.type", "dynamic")
      .f64("config.rope_scaling.factor", 2);
  expect_note(fake, "more than 64 tokens, which GGUF has no place for");
  fake.metadata.string("config.rope_scaling.type", "linear");
  EXPECT_TRUE(notes_of(fake).empty());
}

INSTANTIATE_TEST_SUITE_P(Families, GgufFormTest, ::testing::ValuesIn(all_families()),
                         family_case_name);

}  // namespace
}  // namespace bp::convert
