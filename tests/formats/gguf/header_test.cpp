// Size, magic, version and counts.

#include "fixture.hpp"
#include "formats/gguf/limits.hpp"

namespace bp::gguf {
namespace {

TEST(Header, EmptyModelOfBothVersions) {
  expect_accepted(GgufBuilder().version(2).bytes());
  expect_accepted(GgufBuilder().version(3).bytes());
}

TEST(Header, AtLeast24Bytes) {
  const std::string whole = GgufBuilder().bytes();
  ASSERT_EQ(whole.size(), 24u);
  expect_refused("", 0, "a file of 0 bytes; a GGUF file has at least 24");
  expect_refused(whole.substr(0, 23), 0, "a file of 23 bytes; a GGUF file has at least 24");
}

TEST(Header, Magic) {
  expect_refused(GgufBuilder().magic("GGML").bytes(), 0, "magic is \"GGML\"");
  expect_refused(GgufBuilder().magic({'\0', '\xff', '"', 'x'}).bytes(), 0,
                 "magic is \"\\x00\\xff\\x22x\"");
}

TEST(Header, GitLfsPointerHasItsOwnMessage) {
  expect_refused("version https://git-lfs.github.com/spec/v1\n", 0, "git lfs pull");
}

TEST(Header, Version) {
  for (uint32_t version : {0u, 1u, 4u, 0xffffffffu}) {
    expect_refused(GgufBuilder().version(version).bytes(), 4,
                   "version " + std::to_string(version) + "; supported are 2 and 3",
                   Code::kUnsupported);
  }
}

TEST(Header, ByteSwappedVersionHasItsOwnMessage) {
  expect_refused(GgufBuilder().version(0x03000000).bytes(), 4, "version 3 in big-endian order",
                 Code::kUnsupported);
  expect_refused(GgufBuilder().version(0x02000000).bytes(), 4, "version 2 in big-endian order",
                 Code::kUnsupported);
}

TEST(Header, NumberOfKeyValuesIsLimited) {
  const std::string room(13 * (kMaxKeyValues + 1), '\0');
  expect_refused(GgufBuilder().n_kv(65537).bytes() + room, 16,
                 "n_kv is 65537; allowed are 0 to 65536");
  // One fewer passes this rule; the zeros then are a key without bytes.
  expect_refused(GgufBuilder().n_kv(65536).bytes() + room, 24, "metadata key of 0 bytes");
  expect_refused(GgufBuilder().n_kv(UINT64_MAX).bytes(), 16, "n_kv is 18446744073709551615");
}

TEST(Header, NumberOfTensorsIsLimited) {
  const std::string room(24 * (kMaxTensors + 1), '\0');
  expect_refused(GgufBuilder().n_tensors(1048577).bytes() + room, 8,
                 "n_tensors is 1048577; allowed are 0 to 1048576");
  expect_refused(GgufBuilder().n_tensors(1048576).bytes() + room, 24, "tensor name of 0 bytes");
}

TEST(Header, CountsFitTheRestOfTheFile) {
  expect_refused(GgufBuilder().n_kv(2).bytes() + std::string(25, '\0'), 16,
                 "n_kv is 2, but the 25 bytes that remain hold at most 1");
  expect_refused(GgufBuilder().n_tensors(2).bytes() + std::string(47, '\0'), 8,
                 "n_tensors is 2, but the 47 bytes that remain hold at most 1");
}

}  // namespace
}  // namespace bp::gguf
