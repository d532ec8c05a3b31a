// The fuzzer's seeds and findings as an ordinary test, and mutations of a small file.

#include <iterator>
#include <random>

#include "corpus.hpp"
#include "fixture.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace bp::gguf {
namespace {

void replay(const std::string& bytes) {
  const std::vector<uint8_t> exact(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

TEST(Corpus, EveryFileReplays) {
  size_t n_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(GGUF_CORPUS)) {
    SCOPED_TRACE(entry.path().filename());
    std::ifstream file(entry.path(), std::ios::binary);
    replay(std::string((std::istreambuf_iterator<char>(file)), {}));
    ++n_files;
  }
  EXPECT_GE(n_files, make_seeds().size());
}

TEST(Corpus, SeedsAreWhatTheyClaim) {
  for (const Seed& seed : make_seeds()) {
    const Status status = read_bytes(seed.bytes);
    EXPECT_EQ(status.ok(), seed.is_valid) << seed.name << ": " << status.message();
  }
}

TEST(Mutations, EveryPrefixIsRefused) {
  for (const Seed& seed : make_seeds()) {
    if (!seed.is_valid) continue;
    SCOPED_TRACE(seed.name);
    size_t n_accepted = 0;
    for (size_t n = 0; n < seed.bytes.size(); ++n) {
      replay(seed.bytes.substr(0, n));
      n_accepted += read_bytes(seed.bytes.substr(0, n)).ok() ? 1 : 0;
    }
    // Only the padding after the last tensor may be missing.
    EXPECT_LT(n_accepted, 64u);
  }
}

TEST(Mutations, FlippedBitsAreReadOrRefused) {
  std::mt19937 random(1);
  for (const Seed& seed : make_seeds()) {
    for (size_t i = 0; i < seed.bytes.size(); ++i) {
      for (int bit = 0; bit < 8; ++bit) {
        std::string bytes = seed.bytes;
        bytes[i] = static_cast<char>(bytes[i] ^ (1 << bit));
        replay(bytes);
        bytes[random() % bytes.size()] = static_cast<char>(random());
        bytes[random() % bytes.size()] = static_cast<char>(random() % 2 == 0 ? 0xff : 0);
        replay(bytes);
      }
    }
  }
}

}  // namespace
}  // namespace bp::gguf
