#include "backplane/metadata.hpp"

#include <gmock/gmock.h>

#include "tests/support/metadata_builder.hpp"

namespace bp {
namespace {

using ::testing::HasSubstr;

TEST(Metadata, ConvertsWithoutLoss) {
  bp::testing::MetadataBuilder b;
  b.u64("u", 7).i64("i", -3).f64("f", 0.5).boolean("b", true).string("s", "text");
  const MetadataView m(b.entries());
  EXPECT_EQ(*m.get<uint64_t>("u"), 7u);
  EXPECT_EQ(*m.get<int64_t>("u"), 7);
  EXPECT_EQ(*m.get<uint32_t>("u"), 7u);
  EXPECT_EQ(*m.get<int32_t>("i"), -3);
  EXPECT_EQ(*m.get<double>("f"), 0.5);
  EXPECT_EQ(*m.get<double>("i"), -3.0);
  EXPECT_EQ(*m.get<bool>("b"), true);
  EXPECT_EQ(*m.get<std::string_view>("s"), "text");
}

TEST(Metadata, NamesKeyExpectedAndFound) {
  bp::testing::MetadataBuilder b;
  b.i64("negative", -1).u64("big", 5'000'000'000).string("s", "x").u64s("list", {1, 2});
  const MetadataView m(b.entries());
  EXPECT_EQ(m.get<uint64_t>("absent").status().message(),
            "metadata \"absent\" is missing: expected u64");
  EXPECT_EQ(m.get<uint64_t>("negative").status().message(),
            "metadata \"negative\": expected u64, found i64 -1");
  EXPECT_EQ(m.get<uint32_t>("big").status().message(),
            "metadata \"big\": expected u32, found u64 5000000000");
  EXPECT_EQ(m.get<double>("s").status().message(), "metadata \"s\": expected number, found string");
  EXPECT_EQ(m.get<bool>("big").status().message(),
            "metadata \"big\": expected bool, found u64 5000000000");
  EXPECT_EQ(m.get<uint64_t>("list").status().message(),
            "metadata \"list\": expected u64, found an array");
  EXPECT_EQ(m.array<uint64_t>("s").status().message(),
            "metadata \"s\": expected array of u64, found a scalar");
}

TEST(Metadata, FallbackStandsForAbsentKeysOnly) {
  bp::testing::MetadataBuilder b;
  b.string("s", "x");
  const MetadataView m(b.entries());
  EXPECT_EQ(*m.get_or<uint64_t>("absent", 4), 4u);
  EXPECT_FALSE(m.get_or<uint64_t>("s", 4).ok());
}

TEST(Metadata, ArraysAreCheckedElementByElement) {
  bp::testing::MetadataBuilder b;
  b.i64s("types", {1, 3, -2}).strings("words", {"a", "", "c"}).f64s("none", {});
  const MetadataView m(b.entries());
  const auto types = m.array<int32_t>("types");
  ASSERT_TRUE(types.ok());
  EXPECT_EQ(types->size(), 3u);
  EXPECT_EQ((*types)[2], -2);
  EXPECT_THAT(m.array<uint64_t>("types").status().message(), HasSubstr("i64 -2 at index 2"));
  EXPECT_EQ((*m.array<std::string_view>("words"))[1], "");
  EXPECT_EQ(m.array<double>("none")->size(), 0u);
}

}  // namespace
}  // namespace bp
