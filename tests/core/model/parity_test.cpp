// Whole models through the format plugin, the core's lowering and a backend plugin, against logits
// of other engines. A backend joins by its id in kBackends.

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/core/model/support/backend_runner.hpp"
#include "tests/core/model/support/test_models.hpp"
#include "tests/support/gguf_fixture.hpp"

namespace bp::model::test {
namespace {

struct Backend {
  const char* id;
  // Largest rms(difference) / deviation of the peer's logits, which were made with a KV cache in
  // f16 and 8-bit activations, by weight type.
  double f32, f16, q8_0, q4_k_m;
};
constexpr Backend kBackends[] = {{"reference", 0.005, 0.005, 0.06, 0.10},
                                 {"cpu", 0.005, 0.005, 0.06, 0.10}};

constexpr const char* kModels[] = {"stories260k-f32",  "stories260k-f16",   "stories260k-q8_0",
                                   "tiny-llama-0-f32", "tiny-llama-0-q8_0", "tiny-llama-0-q4_k_m",
                                   "tiny-qwen2-0-f32", "tiny-qwen2-0-q8_0", "tiny-qwen2-0-q4_k_m",
                                   "tiny-qwen3-0-f32", "tiny-qwen3-0-q8_0", "tiny-qwen3-0-q4_k_m"};

double bound(const Backend& backend, const std::string& model) {
  if (model.ends_with("f32")) return backend.f32;
  if (model.ends_with("f16")) return backend.f16;
  return model.ends_with("q8_0") ? backend.q8_0 : backend.q4_k_m;
}

nlohmann::json read_json(const std::string& relative) {
  std::ifstream in(testing::test_data() / relative);
  return nlohmann::json::parse(in);
}

class ParityTest : public ::testing::TestWithParam<std::tuple<Backend, const char*>> {
 protected:
  void SetUp() override {
    if (testing::test_data().empty()) GTEST_SKIP() << "BACKPLANE_TEST_DATA is not set";
    auto runner = BackendRunner::create(std::get<0>(GetParam()).id);
    if (!runner.ok()) GTEST_SKIP() << runner.status().message();
    runner_ = *std::move(runner);
  }
  std::unique_ptr<BackendRunner> runner_;
};

TEST_P(ParityTest, LogitsOfPeers) {
  const auto& [backend, name] = GetParam();
  const auto path = test_model(name);
  ASSERT_TRUE(path.ok()) << path.status().message();
  auto model = load_gguf(*path);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto bodies = OpBodies::load(source_folders().ops);
  ASSERT_TRUE(bodies.ok()) << bodies.status().message();
  const auto program = fit_to_backend(model->program, *bodies, runner_->check());
  ASSERT_TRUE(program.ok()) << program.status().message();
  const auto expected = read_json("logits/expected.json");
  for (const auto& prompt : expected["models"][name]) {
    const auto tokens = prompt["prompt"].get<std::vector<int32_t>>();
    const auto logits = runner_->last_logits(*program, tokens);
    ASSERT_TRUE(logits.ok()) << logits.status().message();
    const double error = relative_rms(*logits, prompt["logits"].get<std::vector<float>>());
    RecordProperty("rms_" + std::to_string(tokens.size()), std::to_string(error));
    EXPECT_LE(error, bound(backend, name)) << tokens.size() << " tokens";
  }
}

std::string case_name(const ::testing::TestParamInfo<ParityTest::ParamType>& info) {
  std::string name = std::string(std::get<0>(info.param).id) + "_" + std::get<1>(info.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Backends, ParityTest,
                         ::testing::Combine(::testing::ValuesIn(kBackends),
                                            ::testing::ValuesIn(kModels)),
                         case_name);

}  // namespace
}  // namespace bp::model::test
