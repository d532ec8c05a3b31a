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
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyTest, ::testing::ValuesIn(all_families()),
                         family_case_name);

}  // namespace
}  // namespace bp::model::test
