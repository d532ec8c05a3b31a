// Headers that break a rule, each refused in a sentence.

#include "fixture.hpp"

namespace bp::safetensors {
namespace {

struct Broken {
  const char* name;
  std::string header;
  uint64_t data_bytes;
  const char* rule;
  Code code = Code::kInvalidArgument;
};

std::string tensor(const std::string& members) {
  return "{\"t\":{" + members + "}}";
}

std::string nested(size_t depth) {
  return "{\"__metadata__\":" + std::string(depth, '[') + std::string(depth, ']') + "}";
}

const Broken kBroken[] = {
    {"no_object", "[1]", 0, "must begin with an opening brace"},
    {"space_first", " {}", 0, "must begin with an opening brace"},
    {"ends_early", "{\"t\":{\"dtype\":\"U8\",\"shape\":[", 0, "ends early"},
    {"more_behind", "{}{}", 0, "must end here"},
    {"comma_missing", "{\"a\":1 \"b\":2}", 0, "offset 13: an object must stand here"},
    {"not_utf8", "{\"\xff\":1}", 0, "not UTF-8"},
    {"nul_in_name", "{\"a\\u0000\":1}", 0, "not UTF-8 without NUL"},
    {"half_surrogate", "{\"\\ud800\":1}", 0, "surrogate"},
    {"control_character", "{\"a\n\":1}", 0, "control character"},
    {"escape", "{\"\\x\":1}", 0, "unknown escape"},
    {"depth", nested(100), 0, "offset 24: an object must stand here"},
    {"tensor_twice",
     "{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
     "\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
     2, "stands twice"},
    {"member_twice",
     tensor("\"dtype\":\"U8\",\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]"), 1,
     "stands twice"},
    {"metadata_number", "{\"__metadata__\":{\"a\":1}}", 0, "maps strings to strings"},
    {"dtype_unknown", tensor("\"dtype\":\"F7\",\"shape\":[1],\"data_offsets\":[0,1]"), 1,
     "unsupported type \"F7\"", Code::kUnsupported},
    {"dtype_missing", tensor("\"shape\":[1],\"data_offsets\":[0,1]"), 1, "lacks dtype"},
    {"member_unknown", tensor("\"kind\":1"), 0, "unknown member"},
    {"dimension_negative", tensor("\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]"), 1,
     "whole number"},
    {"dimension_real", tensor("\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]"), 1,
     "whole number"},
    {"dimension_nan", tensor("\"dtype\":\"U8\",\"shape\":[NaN],\"data_offsets\":[0,1]"), 1,
     "JSON value"},
    {"dimension_leading_zero", tensor("\"dtype\":\"U8\",\"shape\":[01],\"data_offsets\":[0,1]"), 1,
     "no number"},
    {"dimension_huge",
     tensor("\"dtype\":\"U8\",\"shape\":[18446744073709551615],\"data_offsets\":[0,1]"), 1,
     "a dimension of"},
    {"product_overflows",
     tensor("\"dtype\":\"U8\",\"shape\":[1099511627776,1099511627776],\"data_offsets\":[0,0]"), 0,
     "more than"},
    {"offsets_backwards", tensor("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,1]"), 2,
     "backwards"},
    {"offsets_beyond", tensor("\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,9]"), 8,
     "the file holds 8"},
    {"offsets_one", tensor("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]"), 1, "two values"},
    {"offsets_three", tensor("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]"), 1,
     "two values"},
    {"size_disagrees", tensor("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]"), 4,
     "take 8 bytes, its data_offsets 4"},
    {"byte_behind", tensor("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]"), 2,
     "the tensors take 1 bytes"},
    {"hole", tensor("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]"), 2, "ends at 0"},
    {"overlap",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
     3, "overlaps it"},
    {"five_dimensions", tensor("\"dtype\":\"U8\",\"shape\":[1,1,1,1,1],\"data_offsets\":[0,1]"), 1,
     "5 dimensions", Code::kUnsupported},
};

class BrokenHeader : public testing::TestWithParam<Broken> {};

TEST_P(BrokenHeader, IsRefused) {
  const Folder folder;
  const Broken& broken = GetParam();
  const std::string path = folder.write(
      "model.safetensors", file_bytes(broken.header, std::string(broken.data_bytes, '\1')));
  expect_refused(path, broken.rule, broken.code);
  expect_refused(path, "model.safetensors", broken.code);
}

INSTANTIATE_TEST_SUITE_P(All, BrokenHeader, testing::ValuesIn(kBroken),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

TEST(Header, LengthIsWithinTheFileAndItsLimit) {
  const Folder folder;
  expect_refused(folder.write("a.safetensors", ""), "at least 10");
  expect_refused(folder.write("a.safetensors", "12345678"), "at least 10");
  std::string beyond = file_bytes("{}");
  beyond[0] = 3;
  expect_refused(folder.write("a.safetensors", beyond), "a header of 3 bytes");
  beyond[7] = '\x7f';
  expect_refused(folder.write("a.safetensors", beyond), "allowed are 100000000");
}

TEST(Header, LfsPointerGetsItsOwnMessage) {
  const Folder folder;
  expect_refused(folder.write("model.safetensors",
                              "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"),
                 "git lfs pull");
}

// Every header cut short or with one byte changed is read or refused, within bounds.
TEST(Header, EveryDamageIsSurvived) {
  const std::string header =
      "{\"__metadata__\":{\"format\":\"pt\"},\"a\\u00e4\":{\"dtype\":\"F16\",\"shape\":[2,3],"
      "\"data_offsets\":[0,12]},\"b\":{\"dtype\":\"I8\",\"shape\":[],\"data_offsets\":[12,13]}}";
  ASSERT_TRUE(parse_header("m", header, 8 + header.size() + 13).ok());
  for (size_t n = 0; n < header.size(); ++n) {
    EXPECT_FALSE(parse_header("m", header.substr(0, n), 8 + n + 13).ok());
    for (const char byte : {'\0', '"', '{', '}', '[', ']', ',', '9', '\\', '\xff'}) {
      std::string damaged = header;
      damaged[n] = byte;
      const auto shard = parse_header("m", damaged, 8 + damaged.size() + 13);
      if (!shard.ok()) continue;
      for (const TensorEntry& tensor : shard->tensors) {
        EXPECT_LE(tensor.offset + tensor.n_bytes, 8 + damaged.size() + 13);
      }
    }
  }
}

}  // namespace
}  // namespace bp::safetensors
