// Files on disk: what cannot be opened, what changes while it is open, real models.

#include <sys/stat.h>

#include <cstdlib>

#include "backplane/dtype.hpp"
#include "backplane/metadata.hpp"
#include "fixture.hpp"

namespace bp::gguf {
namespace {

Status open_status(const std::string& path) {
  return Model::open(path).status();
}

TEST(Files, MissingFile) {
  const Status status = open_status("/nowhere/model.gguf");
  EXPECT_EQ(status.code(), Code::kIoError);
  EXPECT_EQ(status.message(), "/nowhere/model.gguf: cannot open: No such file or directory");
}

TEST(Files, OnlyRegularFiles) {
  TemporaryFolder folder;
  EXPECT_EQ(open_status(folder.file("")).code(), Code::kInvalidArgument);
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  const Status status = open_status(folder.file("pipe"));
  EXPECT_EQ(status.message(), folder.file("pipe") + ": not a regular file");
}

TEST(Files, EmptyFile) {
  TemporaryFolder folder;
  EXPECT_THAT(open_status(folder.write("empty.gguf", "")).message(),
              testing::HasSubstr("offset 0: a file of 0 bytes"));
}

TEST(Files, LongPathsLeaveRoomForTheRule) {
  const Status status = open_status("/" + std::string(200, 'a') + "/" + std::string(100, 'b'));
  EXPECT_THAT(status.message(), testing::StartsWith("...aaa"));
  EXPECT_THAT(status.message(), testing::EndsWith("b: cannot open: No such file or directory"));
  EXPECT_LT(status.message().size(), 210u);
}

TEST(Files, LongNamesLeaveRoomForTheRule) {
  std::string a;
  while (a.size() < 254) a += "\xc3\xbf";
  const std::string data(32, 'x');
  const Status status = read_bytes(GgufBuilder()
                                       .tensor({a, {8}, 0, data, uint64_t{0}})
                                       .tensor({a + "b", {8}, 0, data, uint64_t{0}})
                                       .bytes());
  EXPECT_THAT(status.message(), testing::HasSubstr("\"..., which ends at"));
  EXPECT_LT(status.message().size(), 340u);
}

TEST(Files, NamesOutliveTheFile) {
  TemporaryFolder folder;
  const std::string path = folder.write(
      "m.gguf", GgufBuilder().set("key", std::string("value")).f32_tensor("t", {1}, {1}).bytes());
  auto model = Model::open(path);
  ASSERT_TRUE(model.ok());
  std::filesystem::resize_file(path, 0);
  const bp_model_file& file = *(*model)->view();
  const MetadataView metadata(std::span(file.metadata, file.n_metadata));
  EXPECT_EQ(metadata.get<std::string_view>("key").value(), "value");
}

TEST(Files, FileThatShrinksWhileItIsRead) {
  TemporaryFolder folder;
  const std::string bytes = GgufBuilder().set("key", std::string(1 << 20, 'v')).bytes();
  const std::string path = folder.write("m.gguf", bytes);
  auto header = HeaderBytes::open(path);
  ASSERT_TRUE(header.ok());
  std::filesystem::resize_file(path, 1 << 10);
  const Status status = read_part(*std::move(header)).status();
  EXPECT_EQ(status.code(), Code::kIoError);
  EXPECT_THAT(status.message(), testing::HasSubstr("offset 1024: the file became shorter"));
}

class RealFiles : public testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("BACKPLANE_TEST_DATA");
    if (folder == nullptr) GTEST_SKIP() << "BACKPLANE_TEST_DATA is not set";
    folder_ = folder;
  }
  std::filesystem::path folder_;
};

TEST_F(RealFiles, ModelsOpen) {
  const std::pair<const char*, bp_dtype> cases[] = {{"stories260k-f32.gguf", BP_DTYPE_F32},
                                                    {"stories260k-f16.gguf", BP_DTYPE_F16},
                                                    {"stories260k-q8_0.gguf", BP_DTYPE_Q8_0}};
  for (const auto& [name, dtype] : cases) {
    auto model = Model::open(folder_ / "stories260k" / name);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const bp_model_file& file = *(*model)->view();
    EXPECT_EQ(file.n_tensors, 47u);
    EXPECT_EQ(file.tensors[0].dtype, dtype);
    EXPECT_EQ(file.tensors[0].dims[0], 512u);
    EXPECT_EQ(file.tensors[0].dims[1], 64u);
    const MetadataView metadata(std::span(file.metadata, file.n_metadata));
    EXPECT_EQ(metadata.get<std::string_view>("general.architecture").value(), "llama");
    EXPECT_EQ(metadata.get<uint32_t>("llama.block_count").value(), 5u);
    EXPECT_EQ(metadata.array<std::string_view>("tokenizer.ggml.tokens").value().size(), 512u);
  }
}

TEST_F(RealFiles, VocabulariesOpen) {
  int n_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "tokenizers")) {
    if (entry.path().extension() != ".gguf") continue;
    ++n_files;
    auto model = Model::open(entry.path());
    ASSERT_TRUE(model.ok()) << model.status().message();
    const bp_model_file& file = *(*model)->view();
    EXPECT_EQ(file.n_tensors, 0u);
    const MetadataView metadata(std::span(file.metadata, file.n_metadata));
    EXPECT_GT(metadata.array<std::string_view>("tokenizer.ggml.tokens").value().size(), 30000u);
  }
  EXPECT_EQ(n_files, 4);
}

}  // namespace
}  // namespace bp::gguf
