// Folders: shards by an index, the files beside them, and which of several forms is read.

#include "fixture.hpp"

#include <dlfcn.h>

#include "backplane/metadata.hpp"

namespace bp::pytorch {
namespace {

constexpr const char* kFirst = "pytorch_model-00001-of-00002.bin";
constexpr const char* kSecond = "pytorch_model-00002-of-00002.bin";
constexpr const char* kIndex = "pytorch_model.bin.index.json";

void write_shards(const Folder& folder) {
  folder.write(kFirst, one_tensor("a", 2));
  folder.write(kSecond, one_tensor("b", 1));
}

std::string index_of(const std::string& a, const std::string& b) {
  return R"({"metadata":{},"weight_map":{"a":")" + a + R"(","b":")" + b + "\"}}";
}

uint32_t probe_file(const std::string& path, const std::string& head) {
  return Model::probe(path, false, {reinterpret_cast<const uint8_t*>(head.data()), head.size()});
}

TEST(Folders, ShardsAreFoundByTheIndex) {
  const Folder folder;
  write_shards(folder);
  folder.write(kIndex, index_of(kFirst, kSecond));
  const auto model = open(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().message();
  const ModelFile& file = **model;
  EXPECT_EQ(file.dialect, "huggingface");
  EXPECT_EQ(file.files, (std::vector<std::string>{folder.file(kFirst), folder.file(kSecond)}));
  ASSERT_EQ(file.tensors.size(), 2u);
  EXPECT_EQ(file.tensors[1].file, 1u);
}

TEST(Folders, EveryTensorIsInExactlyItsShard) {
  const Folder folder;
  write_shards(folder);
  folder.write(kIndex, index_of(kSecond, kFirst));
  expect_refused(open(folder.path()).status(), "by the index");
  folder.write(kIndex, index_of("../x.bin", kSecond));
  expect_refused(open(folder.path()).status(), "no plain name of a .bin file");
  folder.write(kIndex, index_of("x.safetensors", kSecond));
  expect_refused(open(folder.path()).status(), "no plain name of a .bin file");
}

TEST(Folders, OneFileOpensAloneUnlessItIsAPart) {
  const Folder folder;
  write_shards(folder);
  expect_refused(open(folder.file(kFirst)).status(), "open the folder");
  expect_refused(open(folder.path()).status(), "several .bin files");
  folder.write("config.json", R"({"hidden_size": 64})");
  const auto alone = open(folder.write("consolidated.pth", one_tensor("a", 1)));
  ASSERT_TRUE(alone.ok()) << alone.status().message();
  EXPECT_EQ(MetadataView((*alone)->metadata).get<int64_t>("config.hidden_size").value(), 64);
}

TEST(Folders, QuantisedWeightsAreReadFromSafetensorsAlone) {
  const Folder folder;
  folder.write("pytorch_model.bin", one_tensor("a", 1));
  folder.write("config.json", R"({"quantization_config": {"quant_method": "gptq", "bits": 4}})");
  const auto model = open(folder.path());
  EXPECT_EQ(model.status().code(), Code::kUnsupported);
  EXPECT_THAT(model.status().message(), testing::HasSubstr("\"gptq\": quantised weights"));
}

TEST(Folders, ThePublishersOwnFormIsNamed) {
  const Folder folder;
  folder.write("params.json", "{}");
  folder.write("consolidated.00.pth", one_tensor("a", 1));
  expect_refused(open(folder.path()).status(), "params.json and no config.json",
                 Code::kUnsupported);
}

TEST(Folders, AreProbedByWhatTheyHold) {
  const Folder folder;
  EXPECT_EQ(Model::probe(folder.path(), true, {}), 0u);
  folder.write("tokenizer.json", "{}");
  EXPECT_EQ(Model::probe(folder.path(), true, {}), 0u);
  folder.write("a.pt", one_tensor("a", 1));
  EXPECT_EQ(Model::probe(folder.path(), true, {}), 60u);
  folder.write("b.pt", one_tensor("a", 1));
  EXPECT_EQ(Model::probe(folder.path(), true, {}), 0u);
  folder.write("pytorch_model.bin", one_tensor("a", 1));
  EXPECT_EQ(Model::probe(folder.path(), true, {}), 70u);
}

TEST(Files, AreProbedByMagicAndName) {
  const std::string bytes = one_tensor("a", 1);
  EXPECT_EQ(probe_file("/m.bin", bytes), 90u);
  EXPECT_EQ(probe_file("/m", bytes), 60u);
  EXPECT_EQ(probe_file("/m.npz", zip({{"a.npy", "x"}}).bytes), 0u);
  EXPECT_EQ(probe_file("/m.pth", "\x80\x02"), 10u);
  EXPECT_EQ(probe_file("/m", "\x80\x02"), 0u);
  EXPECT_EQ(probe_file("/m.bin", "noise"), 0u);
  EXPECT_EQ(probe_file("/m.gguf", "GGUF"), 0u);
  EXPECT_EQ(probe_file("/m", ""), 0u);
}

TEST(BuiltPlugin, SaysWhatItIs) {
  void* library = ::dlopen(PYTORCH_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  const auto query = reinterpret_cast<bp_plugin_query_fn>(::dlsym(library, "bp_plugin_query"));
  ASSERT_NE(query, nullptr);
  const bp_plugin* plugin = query(BP_ABI_MAJOR);
  ASSERT_NE(plugin, nullptr);
  EXPECT_STREQ(plugin->id, "pytorch");
  EXPECT_NE(plugin->get_factory(BP_FORMAT_ID), nullptr);
}

}  // namespace
}  // namespace bp::pytorch
