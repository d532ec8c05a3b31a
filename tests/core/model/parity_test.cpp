// Whole models through the format plugin, the core's lowering and a backend plugin, against logits
// of other engines. A backend joins by its id in kBackends.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
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
std::ostream& operator<<(std::ostream& out, const Backend& backend) {
  return out << backend.id;
}
constexpr Backend kBackends[] = {{"reference", 0.005, 0.005, 0.06, 0.10},
                                 {"cpu", 0.005, 0.005, 0.06, 0.10}};

const std::string kModels[] = {"stories260k-f32",  "stories260k-f16",   "stories260k-q8_0",
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

class ParityTest : public ::testing::TestWithParam<std::tuple<Backend, std::string>> {
 protected:
  void SetUp() override {
    if (testing::test_data().empty()) GTEST_SKIP() << "BACKPLANE_TEST_DATA is not set";
    auto runner = BackendRunner::create(std::get<0>(GetParam()).id);
    ASSERT_TRUE(runner.ok()) << runner.status().message();
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

// A backend that knows primitives only.
Result<std::vector<plugin::Obstacle>> reject_composites(const bp_program& program) {
  std::vector<plugin::Obstacle> obstacles;
  for (uint32_t i = 0; i < program.n_ops; ++i) {
    const OpSchema* schema = find_op_schema(program.ops[i]->kind);
    if (schema->composite) obstacles.push_back({i, "composites are unknown"});
  }
  return obstacles;
}

struct RealCase {
  const char* id;
  double bound;
};
std::ostream& operator<<(std::ostream& out, const RealCase& real) {
  return out << real.id;
}
class RealModelTest : public ::testing::TestWithParam<RealCase> {};

std::string case_name(const ::testing::TestParamInfo<ParityTest::ParamType>& info) {
  std::string name = std::string(std::get<0>(info.param).id) + "_" + std::get<1>(info.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// With every composite rejected, the program consists of primitives and computes the same.
TEST(InlineParityTest, PrimitivesComputeTheSame) {
  if (testing::test_data().empty()) GTEST_SKIP() << "BACKPLANE_TEST_DATA is not set";
  const auto runner = BackendRunner::create("reference");
  ASSERT_TRUE(runner.ok()) << runner.status().message();
  const auto bodies = OpBodies::load(source_folders().ops);
  ASSERT_TRUE(bodies.ok()) << bodies.status().message();
  const std::vector<int32_t> tokens = {69, 12, 300, 7, 7, 41, 200, 3, 99, 1};
  for (const char* name : {"stories260k-f32", "tiny-qwen2-0-f32", "tiny-qwen3-0-q8_0"}) {
    const auto path = test_model(name);
    ASSERT_TRUE(path.ok()) << path.status().message();
    auto model = load_gguf(*path);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto primitive = fit_to_backend(model->program, *bodies, reject_composites);
    ASSERT_TRUE(primitive.ok()) << primitive.status().message();
    EXPECT_GT(primitive->c().n_ops, model->program.c().n_ops);
    const auto whole = (*runner)->last_logits(model->program, tokens);
    const auto parts = (*runner)->last_logits(*primitive, tokens, 3);  // chunked, too
    ASSERT_TRUE(whole.ok()) << whole.status().message();
    ASSERT_TRUE(parts.ok()) << parts.status().message();
    EXPECT_LE(relative_rms(*parts, *whole), 1e-5) << name;
  }
}

// SmolLM2-135M-Instruct, where `make serve` puts it; each sample is every stride-th logit.
TEST_P(RealModelTest, LogitsOfTransformers) {
  const auto& [id, bound] = GetParam();
  const char* source = std::getenv("BACKPLANE_SOURCE_DIR");
  const std::string path =
      std::string(source == nullptr ? "." : source) + "/models/smollm2-135m-instruct-q4_1.gguf";
  if (testing::test_data().empty()) GTEST_SKIP() << "BACKPLANE_TEST_DATA is not set";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto runner = BackendRunner::create(id);
  ASSERT_TRUE(runner.ok()) << runner.status().message();
  auto model = load_gguf(path);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto expected = read_json("smollm2/expected.json");
  for (const auto& prompt : expected["cases"]) {
    const auto logits =
        (*runner)->last_logits(model->program, prompt["ids"].get<std::vector<int32_t>>());
    ASSERT_TRUE(logits.ok()) << logits.status().message();
    const auto sample = prompt["sample"].get<std::vector<float>>();
    const auto stride = prompt["stride"].get<size_t>();
    double squares = 0;
    for (size_t i = 0; i < sample.size(); ++i) {
      const double difference = double{(*logits)[i * stride]} - sample[i];
      squares += difference * difference;
    }
    const double rms = std::sqrt(squares / static_cast<double>(sample.size()));
    const double error = rms / prompt["std"].get<double>();
    RecordProperty("rms_" + std::to_string(prompt["ids"].size()), std::to_string(error));
    EXPECT_LE(error, bound) << prompt["text"];
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, RealModelTest,
                         ::testing::Values(RealCase{"reference", 0.001}, RealCase{"cpu", 0.12}),
                         [](const auto& test) { return std::string(test.param.id); });

INSTANTIATE_TEST_SUITE_P(Backends, ParityTest,
                         ::testing::Combine(::testing::ValuesIn(kBackends),
                                            ::testing::ValuesIn(kModels)),
                         case_name);

}  // namespace
}  // namespace bp::model::test
