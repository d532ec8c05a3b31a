// Tiny models of each family against logits of transformers: tests/data/architectures/FAMILY.json.
// Their tensors are made again from their names, as make_goldens.py does.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/core/model/support/backend_runner.hpp"
#include "tests/core/model/support/fake_model.hpp"

namespace bp::model::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kBound = 1e-4;  // of rms(difference) / deviation(logits)
// Where weights are quantised and the backend rounds what they are multiplied with to 8 bits.
constexpr double kRoundedBound = 0.03;
constexpr uint32_t kPromptOfDecoding = 33;

fs::path goldens_folder() {
  const char* source = std::getenv("BACKPLANE_SOURCE_DIR");
  return fs::path(source == nullptr ? "." : source) / "tests" / "data" / "architectures";
}

std::vector<std::string> all_families() {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(goldens_folder(), error)) {
    if (entry.path().extension() == ".json") names.insert(entry.path().stem().string());
  }
  return {names.begin(), names.end()};
}

uint64_t name_hash(const std::string& name) {
  uint64_t value = 0xCBF29CE484222325;  // FNV-1a
  for (const char c : name) value = (value ^ static_cast<uint8_t>(c)) * 0x100000001B3;
  return value;
}

// Numbers of 16 bits, those of a name always the same.
class Random {
 public:
  explicit Random(const std::string& name) : state_(name_hash(name)) {}
  uint64_t next() {  // splitmix64
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return (z ^ (z >> 31)) >> 48;
  }

 private:
  uint64_t state_;
};

uint64_t n_elements(const std::vector<uint64_t>& dims) {
  uint64_t n = 1;
  for (const uint64_t dim : dims) n *= dim;
  return n;
}

// Blocks of MXFP4, their bytes in place of floats: four exponents, and any elements.
std::vector<float> blocks_of(const std::string& name, const std::vector<uint64_t>& dims) {
  constexpr uint64_t kBlockBytes = 17;
  const uint64_t n_bytes = n_elements(dims) / 32 * kBlockBytes;
  std::vector<float> values(n_bytes / sizeof(float) + 1);
  auto* bytes = reinterpret_cast<uint8_t*>(values.data());
  Random random(name);
  for (uint64_t i = 0; i < n_bytes; ++i) {
    bytes[i] = static_cast<uint8_t>(random.next());
    if (i % kBlockBytes == 0) bytes[i] = static_cast<uint8_t>(120 + bytes[i] % 4);
  }
  return values;
}

// Values on a grid of 2^-16 between -1 and 1, and 1 added or scaled by powers of two.
std::vector<float> values_of(const std::string& name, const std::vector<uint64_t>& dims) {
  const bool is_decay = name.ends_with("ssm_a");
  const bool is_norm =
      name.find("norm") != std::string::npos || name.find(".ln_") != std::string::npos;
  const bool is_small = dims.size() == 1 || name.find("bias") != std::string::npos;
  const double exponent = std::nearbyint(std::log2(static_cast<double>(dims.back())) / 2);
  const double scale = is_small ? 0.25 : 2 / std::exp2(exponent);
  std::vector<float> values;
  Random random(name);
  for (uint64_t n = n_elements(dims); n > 0; --n) {
    const double unit = static_cast<double>(random.next()) / 32768 - 1;
    values.push_back(static_cast<float>(is_decay  ? unit / 4 - 1
                                        : is_norm ? 1 + unit / 4
                                                  : unit * scale));
  }
  return values;
}

void set_metadata(FakeModel& model, const std::string& key, const json& value) {
  auto& metadata = model.metadata;
  if (value.is_boolean()) {
    metadata.boolean(key, value);
  } else if (value.is_number_integer()) {
    metadata.i64(key, value);
  } else if (value.is_number()) {
    metadata.f64(key, value);
  } else if (value.is_string()) {
    metadata.string(key, value.get<std::string>());
  } else if (value.front().is_string()) {
    metadata.strings(key, value.get<std::vector<std::string>>());
  } else if (value.front().is_boolean()) {
    metadata.booleans(key, value.get<std::vector<bool>>());
  } else if (value.front().is_number_integer()) {
    metadata.i64s(key, value.get<std::vector<int64_t>>());
  } else {
    metadata.f64s(key, value.get<std::vector<double>>());
  }
}

bool is_mxfp4(const json& form, const std::string& tensor) {
  if (!form.contains("mxfp4")) return false;
  return std::ranges::count(form["mxfp4"], json(tensor)) > 0;
}

void fill(FakeModel& model, const json& metadata, const json& form) {
  for (const auto& [key, value] : metadata.items()) set_metadata(model, key, value);
  for (const auto& [name, shape] : form["tensors"].items()) {
    const auto dims = shape.get<std::vector<uint64_t>>();
    const bool is_given = form.contains("given") && form["given"].contains(name);
    if (is_mxfp4(form, name)) {
      model.tensor(name, dims, BP_DTYPE_MXFP4, blocks_of(name, dims));
    } else {
      model.tensor(
          name, dims, BP_DTYPE_F32,
          is_given ? form["given"][name].get<std::vector<float>>() : values_of(name, dims));
    }
  }
}

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
  std::ifstream in(goldens_folder() / (GetParam() + ".json"));
  const json golden = json::parse(in);
  const json& hugging_face = golden["huggingface"];
  const std::map<std::string, json> configurations = {{"newer", hugging_face["metadata"]},
                                                      {"older", golden["older_metadata"]}};
  for (const auto& [name, metadata] : configurations) {
    FakeModel fake("huggingface");
    fill(fake, metadata, hugging_face);
    compare(fake, golden, hugging_face, name);
  }
  if (!golden.contains("gguf")) return;
  FakeModel fake("gguf");
  fill(fake, golden["gguf"]["metadata"], golden["gguf"]);
  compare(fake, golden, golden["gguf"], "gguf");
}

std::string case_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyTest, ::testing::ValuesIn(all_families()), case_name);

}  // namespace
}  // namespace bp::model::test
