// Folders: shards by an index, the files beside them, and what may stand in both.

#include "fixture.hpp"

namespace bp::safetensors {
namespace {

constexpr const char* kFirst = "model-00001-of-00002.safetensors";
constexpr const char* kSecond = "model-00002-of-00002.safetensors";

void write_shards(const Folder& folder) {
  folder.write(kFirst, file_bytes(one_tensor("a", 2), std::string(8, '\0')));
  folder.write(kSecond, file_bytes(one_tensor("b", 1), std::string(4, '\0')));
}

std::string index_of(const std::string& a, const std::string& b) {
  return "{\"metadata\":{\"total_size\":12},\"weight_map\":{\"a\":\"" + a + "\",\"b\":\"" + b +
         "\"}}";
}

TEST(Folders, ShardsAreFoundByTheIndex) {
  const Folder folder;
  write_shards(folder);
  folder.write("model.safetensors.index.json", index_of(kFirst, kSecond));
  const auto model = open(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().message();
  const ModelFile& file = **model;
  EXPECT_EQ(file.dialect, "huggingface");
  EXPECT_EQ(file.files, (std::vector<std::string>{folder.file(kFirst), folder.file(kSecond)}));
  ASSERT_EQ(file.tensors.size(), 2u);
  EXPECT_EQ(view(file.tensors[1].name), "b");
  EXPECT_EQ(file.tensors[1].file, 1u);
  EXPECT_EQ(file.tensors[0].n_bytes, 8u);
  EXPECT_EQ(Model::probe(folder.path(), true, {}), 90u);
}

TEST(Folders, TheIndexNamesPlainFilesInTheFolder) {
  const Folder folder;
  write_shards(folder);
  for (const char* name : {"../x.safetensors", "/etc/x.safetensors", "sub/x.safetensors", "..", "",
                           ".hidden.safetensors", "config.json", "a\\\\b.safetensors"}) {
    folder.write("model.safetensors.index.json", index_of(name, kSecond));
    expect_refused(folder.path(), "no plain name");
  }
}

TEST(Folders, EveryTensorIsInExactlyItsShard) {
  const Folder folder;
  write_shards(folder);
  const auto with = [&](const std::string& index) {
    folder.write("model.safetensors.index.json", index);
    return folder.path();
  };
  expect_refused(with(index_of(kSecond, kFirst)), "by the index");
  expect_refused(
      with("{\"weight_map\":{\"a\":\"" + std::string(kFirst) + "\",\"c\":\"" + kSecond + "\"}}"),
      "not in the index");
  expect_refused(
      with("{\"weight_map\":{\"a\":\"" + std::string(kFirst) + "\",\"c\":\"" + kFirst + "\"}}"),
      "names 2 tensors, but the shards hold 1");
  expect_refused(
      with("{\"weight_map\":{\"a\":\"" + std::string(kFirst) + "\",\"a\":\"" + kFirst + "\"}}"),
      "stands twice");
  expect_refused(with("{\"weight_map\":{\"a\":1}}"), "must be the name of a file");
  expect_refused(with("{\"weight_map\":{}}"), "lacks a weight_map");
  expect_refused(with("{}"), "lacks a weight_map");
  expect_refused(with(index_of(kFirst, "model-00003-of-00002.safetensors")), "is no file",
                 Code::kIoError);
}

TEST(Folders, LinksLeadToRegularFiles) {
  namespace fs = std::filesystem;
  const Folder blobs, folder;
  const std::string blob =
      blobs.write("0123abcd", file_bytes(one_tensor("a", 1), std::string(4, '\0')));
  fs::create_symlink(blob, folder.file("model.safetensors"));
  EXPECT_TRUE(open(folder.path()).ok());
  fs::remove(folder.file("model.safetensors"));
  fs::create_symlink("nowhere", folder.file("model.safetensors"));
  expect_refused(folder.path(), "is no file", Code::kIoError);
  fs::remove(folder.file("model.safetensors"));
  fs::create_symlink("/dev/zero", folder.file("model.safetensors"));
  expect_refused(folder.path(), "is no file", Code::kIoError);
}

TEST(Folders, OneFileOpensAloneUnlessItIsAPart) {
  const Folder folder;
  write_shards(folder);
  expect_refused(folder.file(kFirst), "open the folder");
  expect_refused(folder.path(), "several .safetensors files");
  const std::string alone =
      folder.write("other.safetensors", file_bytes(one_tensor("a", 1), std::string(4, '\0')));
  EXPECT_TRUE(open(alone).ok());
}

TEST(Folders, AreProbedByWhatTheyHold) {
  const Folder folder;
  EXPECT_EQ(Model::probe(folder.path(), true, {}), 0u);
  expect_refused(folder.path(), "without .safetensors files");
  folder.write("tokenizer.json", "{}");
  EXPECT_EQ(Model::probe(folder.path(), true, {}), 40u);
  const auto vocabulary = open(folder.path());
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status().message();
  EXPECT_TRUE((*vocabulary)->tensors.empty());
}

class SideFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("model.safetensors", file_bytes("{\"__metadata__\":{\"format\":\"pt\"}}"));
  }
  MetadataView read() {
    auto model = open(folder_.path());
    EXPECT_TRUE(model.ok()) << model.status().message();
    if (!model.ok()) return {};
    model_ = *std::move(model);
    return {model_->metadata};
  }
  const Folder folder_;
  std::unique_ptr<ModelFile> model_;
};

TEST_F(SideFiles, ConfigIsFlattened) {
  folder_.write("config.json", R"({"hidden_size": 64, "eps": 1e-5, "tie": true, "none": null,
    "architectures": ["LlamaForCausalLM"], "rope_scaling": {"rope_type": "llama3", "factor": 8.0},
    "negative": [-1, 2], "mixed": [1, 2.5], "odd": [1, "a"], "deep": [[1]], "empty": [],
    "long": {"name": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
    "flags": [true, false], "name": "a\u00e9\ud83d\ude00"})");
  folder_.write("generation_config.json", R"({"eos_token_id": [1, 2], "inner": {"top_k": null}})");
  const MetadataView m = read();
  EXPECT_EQ(m.get<int64_t>("config.hidden_size").value(), 64);
  EXPECT_EQ(m.get<double>("config.eps").value(), 1e-5);
  EXPECT_TRUE(m.get<bool>("config.tie").value());
  EXPECT_FALSE(m.contains("config.none"));
  const auto nulls = m.array<std::string_view>("huggingface.null_keys");
  ASSERT_EQ(nulls.value().size(), 2u);
  EXPECT_EQ(nulls.value()[0], "config.none");
  EXPECT_EQ(nulls.value()[1], "generation_config.inner.top_k");
  const auto untyped = m.array<std::string_view>("huggingface.untyped_keys");
  const auto values = m.array<std::string_view>("huggingface.untyped_values");
  const std::pair<std::string_view, std::string_view> expected[] = {
      {"config.rope_scaling", R"({"rope_type":"llama3","factor":8.0})"},
      {"config.odd", R"([1,"a"])"},
      {"config.deep", "[[1]]"},
      {"config.long", R"({"name":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...)"},
      {"generation_config.inner", R"({"top_k":null})"},
  };
  ASSERT_EQ(untyped.value().size(), std::size(expected));
  ASSERT_EQ(values.value().size(), std::size(expected));
  for (size_t i = 0; i < std::size(expected); ++i) {
    EXPECT_EQ(untyped.value()[i], expected[i].first);
    EXPECT_EQ(values.value()[i], expected[i].second);
  }
  EXPECT_EQ(m.array<std::string_view>("config.architectures").value()[0], "LlamaForCausalLM");
  EXPECT_EQ(m.get<std::string_view>("config.rope_scaling.rope_type").value(), "llama3");
  EXPECT_EQ(m.get<double>("config.rope_scaling.factor").value(), 8.0);
  EXPECT_EQ(m.array<int64_t>("config.negative").value()[0], -1);
  EXPECT_EQ(m.array<double>("config.mixed").value()[1], 2.5);
  EXPECT_FALSE(m.contains("config.odd"));
  EXPECT_FALSE(m.contains("config.deep"));
  EXPECT_EQ(m.array<int64_t>("config.empty").value().size(), 0u);
  EXPECT_FALSE(m.array<bool>("config.flags").value()[1]);
  EXPECT_EQ(m.get<std::string_view>("config.name").value(), "a\u00e9\U0001F600");
  EXPECT_EQ(m.array<int64_t>("generation_config.eos_token_id").value()[1], 2);
  EXPECT_EQ(m.get<std::string_view>("safetensors.format").value(), "pt");
}

TEST_F(SideFiles, QuantizationIsOfItsKinds) {
  const std::pair<const char*, const char*> wrong[] = {
      {"5", R"("config.quantization_config": expected an object with "quant_method", found u64 5)"},
      {"\"awq\"", R"(expected an object with "quant_method", found string "awq")"},
      {"[[1]]", R"(expected an object with "quant_method", found [[1]])"},
      {R"({"quant_method": {"a": 1}})", R"(quant_method": expected a plain value)"},
      {R"({"quant_method": 5})", R"(quant_method": expected string, found u64 5)"},
      {R"({"bits": "a"})", R"(bits": expected u32, found string)"},
      {R"({"checkpoint_format": 2})", R"(checkpoint_format": expected string, found u64 2)"},
      {R"({"weight_block_size": 128})", R"(weight_block_size": expected array of u64)"},
      {R"({"weight_block_size": [128]})", R"(weight_block_size": expected 2 sizes, found 1)"},
  };
  for (const auto& [value, rule] : wrong) {
    folder_.write("config.json", "{\"quantization_config\": " + std::string(value) + "}");
    expect_refused(folder_.path(), rule);
  }
  for (const char* value : {"null", "false", "{}", R"({"quant_method": null, "other": [[1]]})",
                            R"({"quant_method": "fp8", "weight_block_size": null})"}) {
    folder_.write("config.json", "{\"quantization_config\": " + std::string(value) + "}");
    EXPECT_TRUE(open(folder_.path()).ok()) << value;
  }
}

TEST_F(SideFiles, TokenizersAndTemplatesAreHandedOn) {
  folder_.write("tokenizer.json", "{\"model\": 1}");
  folder_.write("tokenizer.model", std::string("\x0a\0\xff", 3));
  folder_.write("chat_template.jinja", "{{ messages }}");
  const MetadataView m = read();
  EXPECT_EQ(m.get<std::string_view>("tokenizer.huggingface.json").value(), "{\"model\": 1}");
  EXPECT_EQ(m.get<std::string_view>("tokenizer.sentencepiece.model").value(),
            std::string_view("\x0a\0\xff", 3));
  EXPECT_EQ(m.get<std::string_view>("tokenizer.chat_template").value(), "{{ messages }}");
}

TEST_F(SideFiles, ABrokenConfigIsRefused) {
  const std::pair<std::string, const char*> broken[] = {
      {"", "must stand here"},
      {"[]", "an object must stand here"},
      {"{\"a\":1,\"a\":2}", "stands twice"},
      {"{\"a\":{\"b\":1},\"a.b\":2}", "stands twice"},
      {"{\"a\":1e999}", "range of a double"},
      {"{\"a\":Infinity}", "JSON value"},
      {"{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}", "levels of JSON"},
      {"{\"a\":" + std::string(100000, '['), "levels of JSON"},
      {"{\"a\":1,}", "name of a member"},
      {"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"},
  };
  for (const auto& [text, rule] : broken) {
    folder_.write("config.json", text);
    expect_refused(folder_.path(), rule);
  }
}

// A header whose length is no multiple of 8 puts tensors off their boundary: they are copied.
TEST(Tensors, MisalignedOnesAreRead) {
  const Folder folder;
  const std::string header =
      "{\"t\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[1,9]},"
      "\"u\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}";
  const float values[] = {1.5F, -2.0F};
  const std::string data = "x" + std::string(reinterpret_cast<const char*>(values), sizeof values);
  for (size_t padding = 0; padding < 4; ++padding) {
    folder.write("model.safetensors", file_bytes(header + std::string(padding, ' '), data));
    const auto model = open(folder.path());
    ASSERT_TRUE(model.ok()) << model.status().message();
    ASSERT_EQ((*model)->tensors.size(), 2u);
    const bp_tensor& scalar = (*model)->tensors[0];
    EXPECT_EQ(scalar.n_dims, 1u);
    EXPECT_EQ(scalar.dims[0], 1u);
    const bp_tensor& tensor = (*model)->tensors[1];
    const uint64_t offset = 8 + header.size() + padding + 1;
    EXPECT_EQ(tensor.offset, offset % 4 == 0 ? offset : BP_NO_OFFSET);
    float row = 0;
    ASSERT_TRUE((*model)->read(1, 1, 1, &row).ok());
    EXPECT_EQ(row, -2.0F);
    EXPECT_FALSE((*model)->read(1, 1, 2, &row).ok());
    EXPECT_FALSE((*model)->read(1, UINT64_MAX, 2, &row).ok());
    EXPECT_FALSE((*model)->read(2, 0, 1, &row).ok());
  }
}

}  // namespace
}  // namespace bp::safetensors
