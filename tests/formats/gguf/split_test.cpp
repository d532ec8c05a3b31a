// Models in several files.

#include "formats/gguf/split.hpp"

#include "backplane/plugin.hpp"
#include "fixture.hpp"

namespace bp::gguf {
namespace {

struct SplitKeys {
  uint16_t index;
  uint16_t count = 3;
  int32_t n_tensors = 3;
};

GgufBuilder part(const SplitKeys& keys, const std::string& tensor) {
  GgufBuilder builder;
  if (keys.index == 0) builder.set("general.architecture", std::string("llama"));
  builder.set("split.no", keys.index)
      .set("split.count", keys.count)
      .set("split.tensors.count", keys.n_tensors);
  return builder.f32_tensor(tensor, {1}, {static_cast<float>(keys.index)});
}

class SplitModel : public testing::Test {
 protected:
  SplitModel() {
    write(1, part({0}, "a"));
    write(2, part({1}, "b"));
    write(3, part({2}, "c"));
  }
  std::string name(int number) const {
    return "m-0000" + std::to_string(number) + "-of-00003.gguf";
  }
  void write(int number, const GgufBuilder& builder) {
    folder_.write(name(number), builder.bytes());
  }
  auto open(int number = 1) { return Model::open(folder_.file(name(number))); }
  void expect_error(const std::string& file, const std::string& rule) {
    const Status status = open().status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(status.message(), testing::StartsWith(folder_.file(file) + ": offset "));
    EXPECT_THAT(status.message(), testing::HasSubstr(rule));
  }

  TemporaryFolder folder_;
};

TEST_F(SplitModel, OpensAsOne) {
  auto model = open();
  ASSERT_TRUE(model.ok()) << model.status().message();
  const bp_model_file& file = *(*model)->view();
  ASSERT_EQ(file.n_files, 3u);
  ASSERT_EQ(file.n_tensors, 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(file.files[i], folder_.file(name(static_cast<int>(i) + 1)));
    EXPECT_EQ(file.tensors[i].file, i);
    std::ifstream in(file.files[i], std::ios::binary);
    in.seekg(static_cast<std::streamoff>(file.tensors[i].offset));
    float value = -1;
    in.read(reinterpret_cast<char*>(&value), sizeof value);
    EXPECT_EQ(value, static_cast<float>(i));
  }
  EXPECT_EQ(file.n_metadata, 4u);
}

TEST_F(SplitModel, LaterPartIsRefused) {
  const Status status = open(2).status();
  EXPECT_THAT(status.message(), testing::HasSubstr("part 2 of 3: open the first part instead"));
}

TEST_F(SplitModel, MissingPartIsNamed) {
  std::filesystem::remove(folder_.file(name(3)));
  const Status status = open().status();
  EXPECT_EQ(status.code(), Code::kIoError);
  EXPECT_THAT(status.message(), testing::StartsWith(folder_.file(name(3)) + ": cannot open"));
}

TEST_F(SplitModel, BrokenPartIsNamed) {
  folder_.write(name(2), "GGUX and more than twenty-four bytes");
  expect_error(name(2), "magic is \"GGUX\"");
}

TEST_F(SplitModel, NameAndMetadataAgree) {
  write(1, part({0, 4}, "a"));
  expect_error(name(1), "split.count is 4, but the file's name says 3");
  write(1, part({1, 3}, "a"));
  expect_error(name(1), "split.no is 1, but the file's name says 0");
}

TEST_F(SplitModel, PartsAgreeOnTheCount) {
  write(2, part({1, 2}, "b"));
  expect_error(name(2), "split.count is 2, but the first part says 3");
}

TEST_F(SplitModel, PartsAgreeOnTheTensors) {
  write(2, part({1, 3, 48}, "b"));
  expect_error(name(2), "split.tensors.count is 48, but the parts hold 3");
  write(2, GgufBuilder()
               .set("split.no", uint16_t{1})
               .set("split.count", uint16_t{3})
               .f32_tensor("b", {1}, {1}));
  EXPECT_TRUE(open().ok());
}

TEST_F(SplitModel, PartsStandInOrder) {
  write(2, part({2}, "b"));
  expect_error(name(2), "split.no is 2, but the file's name says 1");
}

TEST_F(SplitModel, PartWithoutSplitKeys) {
  write(3, GgufBuilder().f32_tensor("c", {1}, {1}));
  expect_error(name(3), "a part of a split model lacks split.no");
}

TEST_F(SplitModel, SplitKeysAreNaturalNumbers) {
  const auto with_count = [](const auto& count) {
    return GgufBuilder().set("split.no", uint16_t{0}).set("split.count", count);
  };
  const std::string rule = "split.count is not a whole number of at least 0";
  write(1, with_count(std::string("3")));
  expect_error(name(1), rule);
  write(1, with_count(3.0f));
  expect_error(name(1), rule);
  write(1, with_count(int32_t{-3}));
  expect_error(name(1), rule);
  write(1, GgufBuilder().set_array<uint16_t>("split.count", {3}));
  expect_error(name(1), rule);
}

TEST_F(SplitModel, TensorCountsAgree) {
  write(1, part({0, 3, 4}, "a"));
  expect_error(name(1), "split.tensors.count is 4, but the parts hold 3");
}

TEST_F(SplitModel, TensorNamesAreUniqueAcrossParts) {
  write(3, part({2}, "a"));
  expect_error(name(3), "tensor name \"a\" stands in two parts");
}

TEST_F(SplitModel, PartOfAnotherName) {
  folder_.write("other.gguf", part({0}, "a").bytes());
  const Status status = Model::open(folder_.file("other.gguf")).status();
  EXPECT_THAT(status.message(),
              testing::HasSubstr("part 1 of 3, but the file's name does not end"));
}

TEST_F(SplitModel, WholeModelMayHaveASplitName) {
  write(1, GgufBuilder().f32_tensor("a", {1}, {1}));
  EXPECT_TRUE(open().ok());
  write(1, part({0, 1, 1}, "a"));
  EXPECT_TRUE(open().ok());
}

TEST(SplitName, IsParsedExactly) {
  const auto name = parse_split_name("/m/x-00002-of-00011.gguf");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->prefix, "/m/x");
  EXPECT_EQ(name->index, 1u);
  EXPECT_EQ(name->count, 11u);
  EXPECT_EQ(split_path(*name, 10), "/m/x-00011-of-00011.gguf");
  for (const char* other :
       {"x.gguf", "x-00000-of-00003.gguf", "x-00004-of-00003.gguf", "x-0001-of-00003.gguf",
        "x-00001-of-0003.gguf", "x-+0001-of-00003.gguf", "x-00001-of-00003.ggux",
        "-00001-of-00003.gguf", "x_00001-of-00003.gguf", "x-00001_of-00003.gguf"}) {
    EXPECT_FALSE(parse_split_name(other).has_value()) << other;
  }
}

}  // namespace
}  // namespace bp::gguf
