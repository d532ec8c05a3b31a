// The tensor table and where the data lies.

#include "backplane/dtype.hpp"
#include "backplane/plugin.hpp"
#include "fixture.hpp"
#include "formats/gguf/types.hpp"

namespace bp::gguf {
namespace {

constexpr uint64_t kFirstInfo = 24;

GgufBuilder with_tensor(GgufTensor t) {
  return GgufBuilder().tensor(std::move(t));
}

GgufBuilder named(std::string name) {
  return with_tensor({std::move(name), {1}, 0, "1234"});
}

TEST(TensorNames, LengthIs1To255) {
  expect_refused(named("").bytes(), kFirstInfo, "tensor name of 0 bytes; allowed are 1 to 255");
  expect_accepted(named(std::string(255, 'n')).bytes());
  expect_refused(named(std::string(256, 'n')).bytes(), kFirstInfo, "tensor name of 256 bytes");
}

TEST(TensorNames, AreUtf8WithoutNul) {
  expect_accepted(named("größe").bytes());
  expect_refused(named("\xc3").bytes(), kFirstInfo, "tensor \"\\xc3\": name is not UTF-8");
  expect_refused(named(std::string("a\0", 2)).bytes(), kFirstInfo, "name is not UTF-8 without NUL");
}

TEST(TensorNames, AreUnique) {
  const auto builder = named("a").f32_tensor("b", {1}, {1}).f32_tensor("a", {1}, {1});
  const uint64_t third = kFirstInfo + 2 * (8 + 1 + 4 + 8 + 4 + 8);
  expect_refused(builder.bytes(), third, "tensor name \"a\" stands twice");
}

TEST(TensorDims, AtMostFour) {
  expect_accepted(with_tensor({"t", {}, 0, "1234"}).bytes());
  expect_accepted(with_tensor({"t", {1, 1, 1, 1}, 0, "1234"}).bytes());
  expect_refused(with_tensor({"t", {1, 1, 1, 1, 1}, 0, "1234"}).bytes(), kFirstInfo,
                 "tensor \"t\": 5 dimensions; allowed are 0 to 4");
}

TEST(TensorDims, EachIs1To2To40) {
  expect_refused(with_tensor({"t", {0, 1}, 0, ""}).bytes(), kFirstInfo,
                 "dimension 1 is 0; allowed are 1 to 1099511627776");
  const uint64_t max = uint64_t{1} << 40;
  expect_refused(with_tensor({"t", {max + 1}, 0, ""}).bytes(), kFirstInfo,
                 "dimension 0 is 1099511627777");
  // The largest is allowed; its data is not there.
  expect_refused(with_tensor({"t", {max}, 0, ""}).bytes(), kFirstInfo,
                 "4398046511104 bytes at data start 64 + offset 0 end after the file's 64");
}

TEST(TensorDims, ProductIsAtMost2To48) {
  const uint64_t d24 = uint64_t{1} << 24;
  expect_refused(with_tensor({"t", {d24, d24}, 24, ""}).bytes(), kFirstInfo,
                 "281474976710656 bytes at data start");
  expect_refused(with_tensor({"t", {2, d24, d24}, 24, ""}).bytes(), kFirstInfo,
                 "more than 281474976710656 elements");
  const uint64_t d40 = uint64_t{1} << 40;
  expect_refused(with_tensor({"t", {d40, d40, d40, d40}, 24, ""}).bytes(), kFirstInfo,
                 "more than 281474976710656 elements");
}

TEST(TensorDims, RowsAreWholeBlocks) {
  constexpr uint32_t kQ8_0 = 8;
  constexpr uint32_t kQ4_K = 12;
  expect_accepted(with_tensor({"t", {3, 64}, kQ8_0, std::string(3 * 68, 'x')}).bytes());
  expect_refused(with_tensor({"t", {64, 33}, kQ8_0, std::string(4096, 'x')}).bytes(), kFirstInfo,
                 "rows of 33 elements are not divisible by 32, the block of Q8_0");
  expect_refused(with_tensor({"t", {256, 128}, kQ4_K, std::string(32768, 'x')}).bytes(), kFirstInfo,
                 "rows of 128 elements are not divisible by 256, the block of Q4_K");
  expect_refused(with_tensor({"t", {}, kQ8_0, std::string(34, 'x')}).bytes(), kFirstInfo,
                 "rows of 1 elements are not divisible by 32");
}

TEST(TensorTypes, UnsupportedOnesAreNamed) {
  const std::pair<uint32_t, const char*> cases[] = {{4, "Q4_2"},
                                                    {5, "Q4_3"},
                                                    {31, "Q4_0_4_4"},
                                                    {33, "Q4_0_8_8"},
                                                    {36, "IQ4_NL_4_4"},
                                                    {43, "number 43"},
                                                    {0xffffffffu, "number 4294967295"}};
  for (const auto& [type, name] : cases) {
    expect_refused(with_tensor({"t", {256}, type, std::string(1024, 'x')}).bytes(), kFirstInfo,
                   std::string("tensor \"t\": unsupported type ") + name, Code::kUnsupported);
  }
}

TEST(TensorTypes, EveryNumberHasTheDtypeOfItsName) {
  int n_supported = 0;
  for (uint32_t type = 0; type < 64; ++type) {
    const bp_dtype dtype = dtype_from_ggml(type);
    if (dtype == BP_DTYPE_NONE) continue;
    ++n_supported;
    std::string name(dtype_name(dtype));
    for (char& c : name) c = static_cast<char>(std::toupper(c));
    EXPECT_EQ(ggml_type_name(type), name);
  }
  EXPECT_EQ(n_supported, 35);
}

TEST(TensorData, OffsetIsAligned) {
  expect_refused(with_tensor({"t", {1}, 0, std::string(64, 'x'), 16}).bytes(), kFirstInfo,
                 "tensor \"t\": offset 16 is not a multiple of the alignment 32");
}

TEST(TensorData, LiesWithinTheFile) {
  const auto builder = with_tensor({"t", {8}, 0, std::string(32, 'x')});
  const std::string whole = builder.bytes();
  expect_accepted(whole);
  expect_refused(whole.substr(0, whole.size() - 1), kFirstInfo,
                 "tensor \"t\": 32 bytes at data start 64 + offset 0 end after the file's 95");
  for (uint64_t offset : {uint64_t{32}, uint64_t{1} << 62, UINT64_MAX - 31}) {
    expect_refused(with_tensor({"t", {8}, 0, std::string(32, 'x'), offset}).bytes(), kFirstInfo,
                   "offset " + std::to_string(offset) + " end after the file's 96");
  }
}

TEST(TensorData, DoesNotOverlap) {
  const std::string data(64, 'x');
  const auto builder = with_tensor({"a", {16}, 0, data, 32}).tensor({"b", {8}, 0, data, 64});
  expect_refused(builder.bytes(), kFirstInfo + 33,
                 "tensor \"b\": data at 160 overlaps that of \"a\", which ends at 192");
  // A tensor before both in the file, listed after them.
  expect_accepted(with_tensor({"a", {8}, 0, data, 64}).tensor({"b", {16}, 0, data, 0}).bytes());
}

TEST(TensorData, SameBytesTwiceIsOverlap) {
  const std::string data(32, 'x');
  expect_refused(with_tensor({"a", {8}, 0, data, 0}).tensor({"b", {8}, 0, data, 0}).bytes(),
                 kFirstInfo + 33, "overlaps");
}

TEST(TensorTable, IsWhatTheAbiSays) {
  TemporaryFolder folder;
  const auto builder = GgufBuilder()
                           .f32_tensor("bias", {3}, {1, 2, 3})
                           .tensor({"weight", {2, 64}, 8, std::string(2 * 68, 'w')})
                           .tensor({"scalar", {}, 0, "0123"});
  auto model = Model::open(folder.write("m.gguf", builder.bytes()));
  ASSERT_TRUE(model.ok()) << model.status().message();
  const bp_model_file& file = *(*model)->view();
  EXPECT_STREQ(file.dialect, "gguf");
  ASSERT_EQ(file.n_files, 1u);
  EXPECT_EQ(file.files[0], folder.file("m.gguf"));
  ASSERT_EQ(file.n_tensors, 3u);
  const bp_tensor& weight = file.tensors[1];
  EXPECT_EQ(view(weight.name), "weight");
  EXPECT_EQ(weight.dtype, BP_DTYPE_Q8_0);
  ASSERT_EQ(weight.n_dims, 2u);
  EXPECT_EQ(weight.dims[0], 2u);
  EXPECT_EQ(weight.dims[1], 64u);
  EXPECT_EQ(weight.row_stride_bytes, 68u);
  EXPECT_EQ(weight.n_bytes, 136u);
  EXPECT_EQ(weight.offset % 32, 0u);
  EXPECT_EQ(builder.bytes().substr(weight.offset, weight.n_bytes), std::string(136, 'w'));
  const bp_tensor& scalar = file.tensors[2];
  EXPECT_EQ(scalar.n_dims, 0u);
  EXPECT_EQ(scalar.n_bytes, 4u);
  EXPECT_EQ(scalar.row_stride_bytes, 4u);
}

}  // namespace
}  // namespace bp::gguf
