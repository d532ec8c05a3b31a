// What a model of another dialect costs while it is written or quantised: each tensor is read once,
// and a layer is let go before the next.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include <nlohmann/json.hpp>

#include "backplane/plugin.hpp"
#include "core/convert/gguf_form.hpp"
#include "core/convert/quantize_file.hpp"
#include "tests/core/model/support/backend_runner.hpp"
#include "tests/core/model/support/family_goldens.hpp"

namespace bp::convert {
namespace {

using namespace bp::model::test;

uint64_t bytes_of(const bp_tensor& tensor) {
  uint64_t n = 1;
  for (const uint64_t dim : model::dims_of(tensor)) n *= dim;
  return n * sizeof(float);
}

// Of the model's own tensors, or of the largest layer.
uint64_t largest_part(const model::ModelFile& file) {
  std::map<std::string, uint64_t> parts;
  for (const bp_tensor& tensor : file.tensors()) {
    const std::string name(view(tensor.name)), layers = "model.layers.";
    const bool in_layer = name.starts_with(layers);
    parts[in_layer ? name.substr(0, name.find('.', layers.size())) : ""] += bytes_of(tensor);
  }
  uint64_t most = 0;
  for (const auto& [part, n_bytes] : parts) most = std::max(most, n_bytes);
  return most;
}

class SourceMemoryTest : public ::testing::TestWithParam<std::string> {};

TEST_P(SourceMemoryTest, ReadsEachTensorOnceAndHoldsALayer) {
  const auto golden = family_golden(GetParam());
  FakeModel fake("huggingface");
  fill_family(fake, golden["huggingface"]["metadata"], golden["huggingface"]);
  const auto source = fake.open();
  ASSERT_TRUE(source.ok()) << source.status().message();

  ASSERT_TRUE(GgufForm::create(**source, source_folders(), nullptr).ok());
  EXPECT_TRUE(fake.n_reads.empty()) << "planning reads " << fake.n_reads.begin()->first;

  struct Watch {
    model::ModelFile& file;
    uint64_t most = 0;
  } watch{**source};
  auto progress = make_growable<bp_progress>();
  progress.user = &watch;
  progress.report = [](void* user, uint64_t, uint64_t) -> int32_t {
    auto& w = *static_cast<Watch*>(user);
    w.most = std::max(w.most, w.file.held_bytes());
    return 0;
  };
  const std::string path =
      (std::filesystem::path(::testing::TempDir()) / ("memory-" + GetParam() + ".gguf")).string();
  QuantizeOptions options;
  options.mixture = *quantize::find_mixture("F32");
  options.folders = source_folders();
  options.progress = &progress;
  const auto report = quantize_file(**source, path, options);
  std::filesystem::remove(path);
  ASSERT_TRUE(report.ok()) << report.status().message();
  for (const auto& [name, n] : fake.n_reads) EXPECT_EQ(n, 1u) << name;
  EXPECT_GT(watch.most, 0u);
  EXPECT_LE(watch.most, largest_part(**source));
}

INSTANTIATE_TEST_SUITE_P(Families, SourceMemoryTest,
                         ::testing::Values("llama", "qwen3moe", "deepseek3", "phi3", "gptneox"),
                         family_case_name);

TEST(SourceMemory, WhatIsQuantisedWhileLoadingIsLetGo) {
  FakeModel fake("huggingface");
  fill_hugging_face_llama(fake);
  fake.quantize.mixture = *quantize::find_mixture("Q8_0");
  const auto loaded = fake.load(source_folders());
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  uint64_t n_kept = 0;
  for (const bp_tensor& tensor : loaded->file->tensors()) {
    if (tensor.n_dims == 1) n_kept += bytes_of(tensor);
  }
  EXPECT_EQ(loaded->file->held_bytes(), n_kept);
}

// The vocabulary would be padded to the size that config.json gives.
TEST(SourceMemory, TheVocabularysSizeIsTheEmbeddingsBeforeTokensAreMade) {
  const auto golden = family_golden("llama");
  FakeModel fake("huggingface");
  auto metadata = golden["huggingface"]["metadata"];
  metadata["config.vocab_size"] = 16777216;
  fill_family(fake, metadata, golden["huggingface"]);
  fake.metadata.string("tokenizer.huggingface.json", "no JSON");
  const auto source = fake.open();
  ASSERT_TRUE(source.ok()) << source.status().message();
  const auto form = GgufForm::create(**source, source_folders(), nullptr);
  ASSERT_FALSE(form.ok());
  EXPECT_NE(form.status().message().find("model.embed_tokens.weight"), std::string::npos)
      << form.status().message();
}

}  // namespace
}  // namespace bp::convert
