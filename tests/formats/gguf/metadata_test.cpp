// Keys, values, and the alignment.

#include <chrono>
#include <cmath>
#include <limits>

#include "backplane/metadata.hpp"
#include "fixture.hpp"
#include "formats/gguf/limits.hpp"

namespace bp::gguf {
namespace {

constexpr uint64_t kFirstKey = 24;

GgufBuilder with_key(std::string_view key) {
  return GgufBuilder().set(key, uint32_t{1});
}

TEST(MetadataKeys, LengthIs1To65535) {
  expect_refused(with_key("").bytes(), kFirstKey,
                 "metadata key of 0 bytes; allowed are 1 to 65535");
  expect_accepted(with_key("k").bytes());
  expect_accepted(with_key(std::string(65535, 'k')).bytes());
  expect_refused(with_key(std::string(65536, 'k')).bytes(), kFirstKey,
                 "metadata key of 65536 bytes");
}

TEST(MetadataKeys, LengthBeyondTheFile) {
  GgufBytes length;
  length.put<uint64_t>(20).raw("only this");
  expect_refused(GgufBuilder().n_kv(1).bytes() + length.str(), kFirstKey + 8,
                 "metadata key needs 20 bytes, but only 9 of the file's 41 remain");
}

TEST(MetadataKeys, AreUtf8WithoutNul) {
  expect_accepted(with_key("ключ.鍵.\xf0\x9f\x94\x91").bytes());
  const char* broken[] = {"\x80",
                          "a\xc3",
                          "\xc0\x80",
                          "\xc1\xbf",
                          "\xe0\x9f\xbf",
                          "\xed\xa0\x80",
                          "\xf0\x8f\xbf\xbf",
                          "\xf4\x90\x80\x80",
                          "\xf5\x80\x80\x80",
                          "\xe2\x82",
                          "\xf0\x9f\x94",
                          "\xff"};
  for (const char* key : broken) {
    expect_refused(with_key(key).bytes(), kFirstKey, "is not UTF-8 without NUL");
  }
  expect_refused(with_key(std::string_view("a\0b", 3)).bytes(), kFirstKey,
                 "metadata key \"a\\x00b\" is not UTF-8 without NUL");
}

TEST(MetadataKeys, AreUnique) {
  const auto builder = GgufBuilder().set("a", true).set("b", true).set("a", false);
  const uint64_t third = kFirstKey + 2 * (8 + 1 + 4 + 1);
  expect_refused(builder.bytes(), third, "metadata key \"a\" stands twice");
}

TEST(MetadataKeys, ManyAreCheckedQuickly) {
  GgufBuilder builder;
  for (int i = 0; i < 65535; ++i) builder.set("key." + std::to_string(i), true);
  const auto start = std::chrono::steady_clock::now();
  expect_accepted(builder.bytes());
  const uint64_t end = builder.bytes().size();
  expect_refused(builder.set("key.0", true).bytes(), end, "metadata key \"key.0\" stands twice");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST(MetadataValues, AreWidened) {
  TemporaryFolder folder;
  const std::string path =
      folder.write("m.gguf", GgufBuilder()
                                 .set("u8", uint8_t{255})
                                 .set("i8", int8_t{-128})
                                 .set("u16", uint16_t{65535})
                                 .set("i16", int16_t{-32768})
                                 .set("u32", uint32_t{0xffffffff})
                                 .set("i32", std::numeric_limits<int32_t>::min())
                                 .set("f32", 0.1f)
                                 .set("bool", true)
                                 .set("string", std::string("\xff raw"))
                                 .set("u64", UINT64_MAX)
                                 .set("i64", INT64_MIN)
                                 .set("f64", 0.1)
                                 .set_array<float>("floats", {1.5f, NAN})
                                 .set_array<bool>("bools", {true, false})
                                 .set_array<std::string>("strings", {"", "\xe2", "c"})
                                 .set_array<uint16_t>("empty", {})
                                 .bytes());
  auto model = Model::open(path);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const bp_model_file& file = *(*model)->view();
  ASSERT_EQ(file.n_metadata, 16u);
  const MetadataView view(std::span(file.metadata, file.n_metadata));
  EXPECT_EQ(view.get<uint64_t>("u8").value(), 255u);
  EXPECT_EQ(view.get<int64_t>("i8").value(), -128);
  EXPECT_EQ(view.get<uint64_t>("u16").value(), 65535u);
  EXPECT_EQ(view.get<int64_t>("i16").value(), -32768);
  EXPECT_EQ(view.get<uint64_t>("u32").value(), 0xffffffffu);
  EXPECT_EQ(view.get<int64_t>("i32").value(), INT32_MIN);
  EXPECT_EQ(view.get<double>("f32").value(), double{0.1f});
  EXPECT_TRUE(view.get<bool>("bool").value());
  EXPECT_EQ(view.get<std::string_view>("string").value(), "\xff raw");
  EXPECT_EQ(view.get<uint64_t>("u64").value(), UINT64_MAX);
  EXPECT_EQ(view.get<int64_t>("i64").value(), INT64_MIN);
  EXPECT_EQ(view.get<double>("f64").value(), 0.1);
  EXPECT_EQ(view.array<double>("floats").value()[0], 1.5);
  EXPECT_TRUE(std::isnan(view.array<double>("floats").value()[1]));
  EXPECT_FALSE(view.array<bool>("bools").value()[1]);
  EXPECT_EQ(view.array<std::string_view>("strings").value()[1], "\xe2");
  EXPECT_EQ(view.array<uint64_t>("empty").value().size(), 0u);
}

// Where the value of the key "k" has its type.
constexpr uint64_t kType = kFirstKey + 8 + 1;

GgufBuilder with_value(const GgufBytes& value) {
  return GgufBuilder().set_raw("k", value);
}

TEST(MetadataValues, TypeIsKnown) {
  expect_refused(with_value(GgufBytes().put<uint32_t>(13).put<uint64_t>(0)).bytes(), kType,
                 "unknown value type 13 (in key \"k\")");
  expect_refused(
      with_value(GgufBytes().put<uint32_t>(9).put<uint32_t>(99).put<uint64_t>(0)).bytes(), kType,
      "unknown value type 99");
}

TEST(MetadataValues, ArraysAreNotNested) {
  expect_refused(with_value(GgufBytes().put<uint32_t>(9).put<uint32_t>(9).put<uint64_t>(0)).bytes(),
                 kType, "an array of arrays is not allowed");
}

TEST(MetadataValues, ArraysFitTheRestOfTheFile) {
  constexpr uint64_t values = kType + 4 + 4 + 8;
  for (uint64_t n : {uint64_t{3}, uint64_t{1} << 61, UINT64_MAX}) {
    GgufBytes array;
    array.put<uint32_t>(9).put<uint32_t>(10).put<uint64_t>(n).put<uint64_t>(1).put<uint64_t>(2);
    expect_refused(with_value(array).bytes(), values,
                   "an array of " + std::to_string(n) + " values is longer than the 16 bytes");
  }
  GgufBytes strings;
  strings.put<uint32_t>(9).put<uint32_t>(8).put<uint64_t>(2).string("four");
  expect_refused(with_value(strings).bytes(), values,
                 "an array of 2 values is longer than the 12 bytes");
}

TEST(MetadataValues, StringInAnArrayBeyondTheFile) {
  GgufBytes strings;
  strings.put<uint32_t>(9).put<uint32_t>(8).put<uint64_t>(1).put<uint64_t>(5).raw("four");
  expect_refused(with_value(strings).bytes(), kType + 4 + 4 + 8 + 8,
                 "string needs 5 bytes, but only 4");
}

TEST(MetadataValues, BoolsAre0Or1) {
  expect_refused(with_value(GgufBytes().put<uint32_t>(7).put<uint8_t>(2)).bytes(), kType + 4,
                 "a bool is 2; allowed are 0 and 1");
  GgufBytes bools;
  bools.put<uint32_t>(9).put<uint32_t>(7).put<uint64_t>(3).raw({"\0\1\xff", 3});
  expect_refused(with_value(bools).bytes(), kType + 4 + 4 + 8 + 2, "a bool is 255");
}

TEST(MetadataValues, StringsHaveAtMost64MiB) {
  const GgufBytes value = GgufBytes().put<uint32_t>(8).put<uint64_t>(kMaxStringBytes + 1);
  expect_refused(with_value(value).bytes(), kType + 4,
                 "string of 67108865 bytes; allowed are 0 to 67108864");
}

// The status of a file that begins with these bytes and has n_bytes of zeros after them.
Status read_sparse(const std::string& bytes, uint64_t n_bytes) {
  TemporaryFolder folder;
  auto header = HeaderBytes::open(folder.write("sparse.gguf", bytes, bytes.size() + n_bytes));
  EXPECT_TRUE(header.ok());
  return read_part(*std::move(header)).status();
}

TEST(MetadataValues, AllHaveAtMost512MiBInTheFile) {
  const uint64_t n = kMaxMetadataBytes / 8;
  const GgufBytes value = GgufBytes().put<uint32_t>(9).put<uint32_t>(10).put<uint64_t>(n);
  const Status status = read_sparse(with_value(value).bytes(), 8 * n);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(),
              testing::HasSubstr("offset 49: value needs 536870912 bytes, but the "
                                 "metadata may reach to offset 536870936 at most"));
}

TEST(MetadataValues, AllHaveAtMost512MiBInMemory) {
  const uint64_t n = kMaxMetadataBytes / 8 + 1;
  const GgufBytes value = GgufBytes().put<uint32_t>(9).put<uint32_t>(0).put<uint64_t>(n);
  const Status status = read_sparse(with_value(value).bytes(), n);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(),
              testing::HasSubstr("offset 49: 67108865 values bring the metadata to "
                                 "536870920 bytes in memory"));
}

std::string aligned_file(uint32_t alignment) {
  return GgufBuilder()
      .set("general.alignment", alignment)
      .alignment(alignment)
      .f32_tensor("a", {1}, {1})
      .f32_tensor("b", {1}, {2})
      .bytes();
}

TEST(Alignment, IsAPowerOfTwoUpTo65536) {
  for (uint32_t alignment = 1; alignment <= 65536; alignment *= 2) {
    expect_accepted(aligned_file(alignment));
  }
  for (uint32_t alignment : {0u, 3u, 48u, 65537u, 131072u, 0x80000000u}) {
    const auto builder = GgufBuilder().set("general.alignment", alignment);
    expect_refused(
        builder.bytes(), kFirstKey + 8 + 17 + 4,
        "general.alignment is " + std::to_string(alignment) + "; allowed are powers of two");
  }
}

TEST(Alignment, IsU32) {
  expect_refused(GgufBuilder().set("general.alignment", uint64_t{32}).bytes(), kFirstKey + 8 + 17,
                 "general.alignment has value type 10; it must be 4 (u32)");
  expect_refused(GgufBuilder().set_array<uint32_t>("general.alignment", {32}).bytes(),
                 kFirstKey + 8 + 17, "general.alignment has value type 9");
  expect_refused(GgufBuilder().set("general.alignment", std::string("32")).bytes(),
                 kFirstKey + 8 + 17, "general.alignment has value type 8");
}

}  // namespace
}  // namespace bp::gguf
