// The type of each matrix of a model against what llama.cpp's quantiser chooses for it, by
// tests/data/quantize/mixtures.json (made by make_mixtures.py).

#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "backplane/dtype.hpp"
#include "core/convert/quantize_file.hpp"
#include "tests/core/model/support/fake_model.hpp"
#include "tests/core/model/support/family_goldens.hpp"

namespace bp::convert {
namespace {

using namespace bp::model::test;
using nlohmann::json;

// {letter: type}
std::map<char, std::string> legend(const json& letters) {
  std::map<char, std::string> types;
  for (const auto& [type, letter] : letters.items()) types[letter.get<std::string>()[0]] = type;
  return types;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// The first tensors whose types differ.
std::string differences(const QuantizeReport& plan, const std::string& expected,
                        const std::map<char, std::string>& types) {
  std::string text;
  if (plan.tensors.size() != expected.size()) return "another number of tensors";
  for (size_t i = 0; i < expected.size() && text.size() < 300; ++i) {
    const std::string& type = types.at(expected[i]);
    const std::string found = lower(std::string(dtype_name(plan.tensors[i].after)));
    if (found != lower(type)) text += plan.tensors[i].name + " " + found + ", not " + type + "; ";
  }
  return text;
}

TEST(Mixtures, AreThoseOfTheOtherQuantiser) {
  const char* source = std::getenv("BACKPLANE_SOURCE_DIR");
  std::ifstream in(std::filesystem::path(source == nullptr ? "." : source) /
                   "tests/data/quantize/mixtures.json");
  const json golden = json::parse(in);
  const auto types = legend(golden["letters"]);
  const ImportanceMatrix matrix;
  for (const auto& [name, model] : golden["models"].items()) {
    SCOPED_TRACE(name);
    FakeModel fake("gguf");
    fill_shapes(fake, model["metadata"], model["tensors"]);
    const auto file = fake.open();
    ASSERT_TRUE(file.ok()) << file.status().message();
    for (const auto& [mixture, expected] : model["types"].items()) {
      for (const bool has_importance : {false, true}) {
        const json& tensors = expected.is_array() ? expected[has_importance ? 1 : 0] : expected;
        QuantizeOptions options;
        options.mixture = *quantize::find_mixture(mixture);
        options.importance = has_importance ? &matrix : nullptr;
        const auto plan = plan_quantize(**file, options);
        ASSERT_TRUE(plan.ok()) << plan.status().message();
        EXPECT_EQ(differences(*plan, tensors.get<std::string>(), types), "")
            << mixture << (has_importance ? " with importance" : "");
      }
    }
  }
}

TEST(Mixtures, ATensorWithoutDimensionsIsRefused) {
  FakeModel fake("gguf");
  fake.metadata.string("general.type", "imatrix").strings("imatrix.datasets", {});
  fake.metadata.u64("imatrix.chunk_count", 1).u64("imatrix.chunk_size", 1);
  fake.tensor("a.weight.in_sum2", {1}).entry("a.weight.in_sum2").n_dims = 0;
  const auto file = fake.open();
  ASSERT_TRUE(file.ok()) << file.status().message();
  QuantizeOptions options;
  options.mixture = *quantize::find_mixture("Q8_0");
  constexpr const char* kReason = "tensor 'a.weight.in_sum2' has no dimensions";
  const Status plan = plan_quantize(**file, options).status();
  EXPECT_NE(plan.message().find(kReason), std::string::npos) << plan.message();
  const Status importance = read_importance(**file).status();
  EXPECT_NE(importance.message().find(kReason), std::string::npos) << importance.message();
}

}  // namespace
}  // namespace bp::convert
