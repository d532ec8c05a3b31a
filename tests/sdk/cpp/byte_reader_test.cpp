#include "backplane/byte_reader.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "backplane/dtype.hpp"
#include "backplane/file.hpp"
#include "backplane/plugin.hpp"
#include "sdk/conformance/support/temporary_folder.hpp"

namespace bp {
namespace {

using namespace std::string_view_literals;

TEST(ByteReader, ReadsNumbersAndTexts) {
  ByteReader in("\x02\x01\x03\0\0\0\0\0\0\0abcd"sv);
  EXPECT_EQ(in.number<uint16_t>(), 0x0102);
  EXPECT_EQ(view(in.text()), "abc");
  EXPECT_EQ(in.left(), 1u);
  EXPECT_EQ(in.number<uint8_t>(), 'd');
  EXPECT_TRUE(in.ok());
}

TEST(ByteReader, KeepsTheFirstFaultAndThenGivesZeros) {
  ByteReader in("\xff\xff\xff"sv, 100);
  in.take(1);
  EXPECT_EQ(in.number<uint32_t>(), 0u);
  EXPECT_EQ(in.fault(), "offset 101: 4 bytes must lie here, there are 2");
  EXPECT_EQ(in.number<uint8_t>(), 0u);
  EXPECT_EQ(in.text().size, 0u);
  EXPECT_FALSE(in.require(false, "another rule"));
  EXPECT_EQ(in.fault(), "offset 101: 4 bytes must lie here, there are 2");
}

TEST(ByteReader, RefusesATextWhoseLengthWouldWrap) {
  ByteReader in("\xff\xff\xff\xff\xff\xff\xff\xff rest"sv);
  EXPECT_EQ(in.text().size, 0u);
  EXPECT_FALSE(in.ok());
}

TEST(TensorBytes, AreThoseOfWholeBlocks) {
  EXPECT_EQ(tensor_bytes(BP_DTYPE_F32, std::array<uint64_t, 2>{3, 5}), 60u);
  EXPECT_EQ(tensor_bytes(BP_DTYPE_Q8_0, std::array<uint64_t, 2>{3, 64}), 3u * 2 * 34);
}

TEST(TensorBytes, RefuseWhatIsNoTensor) {
  EXPECT_EQ(tensor_bytes(BP_DTYPE_COUNT, std::array<uint64_t, 1>{4}), std::nullopt);
  EXPECT_EQ(tensor_bytes(BP_DTYPE_F32, {}), std::nullopt);
  EXPECT_EQ(tensor_bytes(BP_DTYPE_F32, std::array<uint64_t, 2>{0, 4}), std::nullopt);
  EXPECT_EQ(tensor_bytes(BP_DTYPE_Q8_0, std::array<uint64_t, 2>{4, 33}), std::nullopt);
  constexpr uint64_t kHuge = uint64_t{1} << 32;
  EXPECT_EQ(tensor_bytes(BP_DTYPE_F32, std::array<uint64_t, 2>{kHuge, kHuge}), std::nullopt);
}

class File : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_FALSE(folder_.path().empty());
    std::ofstream(path("ten")) << "0123456789";
  }
  [[nodiscard]] std::string path(const char* name) const {
    return (folder_.path() / name).string();
  }

  conformance::TemporaryFolder folder_{"bp-file"};
};

TEST_F(File, GivesTheBytesOfARange) {
  EXPECT_EQ(*file_size(path("ten")), 10u);
  EXPECT_EQ(*read_file(path("ten"), 3, 4), "3456");
  EXPECT_EQ(*read_file(path("ten"), 10, 0), "");
}

TEST_F(File, RefusesBytesThatAreNotThereBeforeAllocating) {
  const auto beyond = read_file(path("ten"), 4, UINT64_MAX - 2);
  EXPECT_EQ(beyond.status().code(), Code::kInvalidArgument);
  EXPECT_NE(beyond.status().message().find("the file has 10"), std::string::npos);
}

TEST_F(File, OpensNothingButRegularFiles) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(read_file(path("pipe"), 0, 1).status().code(), Code::kIoError);
  EXPECT_EQ(read_file(folder_.path().string(), 0, 1).status().code(), Code::kIoError);
  EXPECT_EQ(read_file(path("absent"), 0, 1).status().code(), Code::kIoError);
}

}  // namespace
}  // namespace bp
