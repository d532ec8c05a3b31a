// Tiny models of each family against logits of transformers: tests/data/architectures/FAMILY.json.
// Their tensors are made again from their names, as make_goldens.py does.

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/core/model/support/backend_runner.hpp"
#include "tests/core/model/support/fake_model.hpp"
#include "tests/core/model/support/family_goldens.hpp"

namespace bp::model::test {
namespace {

using nlohmann::json;

constexpr double kBound = 1e-4;  // of rms(difference) / deviation(logits)
// Where weights are quantised and the backend rounds what they are multiplied with to 8 bits.
constexpr double kRoundedBound = 0.03;
constexpr uint32_t kPromptOfDecoding = 33;

double error_of(const std::vector<float>& logits, const json& expected, size_t stride) {
  const auto sample = expected["sample"].get<std::vector<double>>();
  double squares = 0;
  for (size_t i = 0; i < sample.size(); ++i) {
    squares += std::pow(double{logits[i * stride]} - sample[i], 2);
  }
  return std::sqrt(squares / static_cast<double>(sample.size())) /
         expected["deviation"].get<double>();
}

class FamilyTest : public ::testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    for (const char* id : {"reference", "cpu"}) {
      auto runner = BackendRunner::create(id);
      ASSERT_TRUE(runner.ok()) << runner.status().message();
      runners_[id] = *std::move(runner);
    }
  }
  static void TearDownTestSuite() { runners_.clear(); }

  void TearDown() override {
    RecordProperty("largest_error", fmt::format("{:.2g}", largest_error_));
    RecordProperty("largest_rounded_error", fmt::format("{:.2g}", largest_rounded_error_));
  }

  // Prompts whose sequences have at most `context` tokens and more than `above`.
  void compare(const FakeModel& fake, const json& golden, const json& form,
               const std::string& form_name, uint32_t above, uint32_t context) {
    static const auto bodies = OpBodies::load(source_folders().ops);
    ASSERT_TRUE(bodies.ok()) << bodies.status().message();
    const auto model = fake.load(source_folders(), true, context);
    ASSERT_TRUE(model.ok()) << model.status().message();
    for (const auto& [id, runner] : runners_) {
      if (id == "cpu" && form_name == "older") continue;  // the same program
      SCOPED_TRACE(id);
      const auto program = fit_to_backend(model->program, *bodies, runner->check());
      ASSERT_TRUE(program.ok()) << program.status().message();
      for (const json& prompt : form["prompts"]) {
        const uint32_t n = prompt["n"];
        if (n > above && n <= context) compare_prompt(*runner, *program, golden, form, prompt);
      }
    }
  }

  void compare_prompt(const BackendRunner& runner, const Program& program, const json& golden,
                      const json& form, const json& prompt) {
    auto tokens = golden["tokens"].get<std::vector<int32_t>>();
    const size_t stride = golden["stride"], n = prompt["n"];
    const size_t n_decoded = n == kPromptOfDecoding ? form["decoded"].size() : 0;
    tokens.resize(n + n_decoded);
    const auto logits = runner.decoded_logits(program, tokens, static_cast<uint32_t>(n));
    ASSERT_TRUE(logits.ok()) << logits.status().message();
    const bool rounds = form.contains("mxfp4") && &runner == runners_["cpu"].get();
    const double bound = rounds ? kRoundedBound : kBound;
    for (size_t i = 0; i < logits->size(); ++i) {
      const json& expected = i == 0 ? prompt : form["decoded"][i - 1];
      const double error = error_of((*logits)[i], expected, stride);
      EXPECT_LE(error, bound) << n << " tokens, step " << i;
      double& largest = rounds ? largest_rounded_error_ : largest_error_;
      largest = std::max(largest, error);
    }
  }

  // Rotary scalings of the longest prompt's context are others than those of the rest.
  void compare(const FakeModel& fake, const json& golden, const json& form,
               const std::string& form_name) {
    SCOPED_TRACE(form_name);
    compare(fake, golden, form, form_name, 0, 49);
    compare(fake, golden, form, form_name, 49, 100);
  }

  static inline std::map<std::string, std::unique_ptr<BackendRunner>> runners_;
  double largest_error_ = 0, largest_rounded_error_ = 0;
};

TEST_P(FamilyTest, LogitsOfTransformers) {
  const json golden = family_golden(GetParam());
  const json& hugging_face = golden["huggingface"];
  const std::map<std::string, json> configurations = {{"newer", hugging_face["metadata"]},
                                                      {"older", golden["older_metadata"]}};
  for (const auto& [name, metadata] : configurations) {
    FakeModel fake("huggingface");
    fill_family(fake, metadata, hugging_face);
    compare(fake, golden, hugging_face, name);
  }
  if (!golden.contains("gguf")) return;
  FakeModel fake("gguf");
  fill_family(fake, golden["gguf"]["metadata"], golden["gguf"]);
  compare(fake, golden, golden["gguf"], "gguf");
  if (GetParam() != "phi3") return;
  // The converter names longrope nowadays.
  fake.metadata.string("phi3.rope.scaling.type", "longrope");
  compare(fake, golden, golden["gguf"], "gguf with the scaling's name");
}

// What the classes of transformers take where config.json lacks a key, and where it says null.
class UsualValueTest : public ::testing::Test {
 protected:
  static Value largest(const Value& value) {
    if (!value.is_list()) return value;
    const auto less = [](const Value& a, const Value& b) {
      return *a.as_number() < *b.as_number();
    };
    return *std::ranges::max_element(value.list(), less);
  }

  // The parameter, or its largest of all layers, of the family's model without `key`.
  static double value_of(const std::string& parameter, const std::string& family,
                         const std::string& key, bool is_null) {
    const json golden = family_golden(family);
    json metadata = golden["huggingface"]["metadata"];
    metadata.erase(key);
    json& nulls = metadata["huggingface.null_keys"];
    if (nulls.is_null()) nulls = json::array({"config.pad_token_id"});
    if (is_null) nulls.push_back(key);
    FakeModel fake("huggingface");
    fill_family(fake, metadata, golden["huggingface"]);
    const auto model = fake.load(source_folders(), true);
    EXPECT_TRUE(model.ok()) << model.status().message();
    return model.ok() ? *largest(model->parameters.at(parameter)).as_number() : -1;
  }
};

TEST_F(UsualValueTest, Windows) {
  const std::map<std::string, double> windows = {{"command-r7b", 4096}, {"exaone4", 4096},
                                                 {"gemma2", 4096},      {"gemma3", 4096},
                                                 {"gpt-oss", 128},      {"llama", 0},
                                                 {"mistral", 4096},     {"olmo2", 0},
                                                 {"olmo3", 4096},       {"qwen2", 4096},
                                                 {"qwen3", 4096},       {"qwen2moe-window", 4096},
                                                 {"mixtral", 0},        {"qwen3moe-window", 4096}};
  for (const auto& [family, window] : windows) {
    EXPECT_EQ(value_of("window", family, "config.sliding_window", false), window) << family;
    EXPECT_EQ(value_of("window", family, "config.sliding_window", true), 0) << family;
  }
}

TEST_F(UsualValueTest, SoftCaps) {
  const std::string attention = "config.attn_logit_softcapping";
  const std::string final = "config.final_logit_softcapping";
  EXPECT_EQ(value_of("attention_softcap", "gemma2", attention, false), 50);
  EXPECT_EQ(value_of("attention_softcap", "gemma2", attention, true), 0);
  EXPECT_EQ(value_of("logit_softcap", "gemma2", final, false), 30);
  EXPECT_EQ(value_of("logit_softcap", "gemma2", final, true), 0);
  EXPECT_EQ(value_of("logit_softcap", "gemma3", final, false), 0);
}

TEST_F(UsualValueTest, GroupsOfExperts) {
  EXPECT_EQ(value_of("n_expert_groups_used", "deepseek3", "config.topk_group", false), 4);
}

TEST_F(UsualValueTest, WhatConfigurationsOfModelsThatSeeLeaveOut) {
  const std::string text = "config.text_config.";
  EXPECT_EQ(value_of("norm_eps", "gemma3-vision", text + "rms_norm_eps", false), 1e-6);
  EXPECT_EQ(value_of("context_length", "gemma3-vision", text + "max_position_embeddings", false),
            131072);
  EXPECT_EQ(value_of("window", "gemma3-vision", text + "sliding_window", false), 4096);
  EXPECT_EQ(value_of("window", "gemma3-vision", text + "sliding_window", true), 0);
}

// Files are written with the older names to this day; models in memory have the newer.
TEST(TextSectionTest, TensorsBesideThoseOfOtherPartsHaveTwoNames) {
  const json golden = family_golden("gemma3-vision");
  json form = golden["huggingface"];
  FakeModel older("huggingface"), newer("huggingface");
  fill_family(older, form["metadata"], form);
  json shapes = json::object();
  for (const auto& [name, shape] : form["tensors"].items()) {
    const std::string inner = "language_model.model.";
    const bool is_text = name.starts_with(inner);
    shapes["model." + (is_text ? "language_model." + name.substr(inner.size()) : name)] = shape;
  }
  form["tensors"] = shapes;
  fill_family(newer, form["metadata"], form);
  const auto expected = older.load(source_folders(), true);
  const auto model = newer.load(source_folders(), true);
  ASSERT_TRUE(expected.ok() && model.ok()) << model.status().message();
  EXPECT_EQ(model->program.c().n_weights, expected->program.c().n_weights);
  EXPECT_TRUE(model->warnings.empty());
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyTest, ::testing::ValuesIn(all_families()),
                         family_case_name);

}  // namespace
}  // namespace bp::model::test
