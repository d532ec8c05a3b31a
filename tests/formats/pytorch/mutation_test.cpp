// Archives cut short and with bits changed are read or refused, and what is read lies in the file.

#include "fixture.hpp"

#include <random>

#include "backplane/dtype.hpp"

namespace bp::pytorch {
namespace {

std::string seed() {
  using namespace pickle;
  const std::string floats = storage("FloatStorage", "0", 6);
  const std::string v3 = call(global("torch._utils", "_rebuild_tensor_v3"),
                              {storage("UntypedStorage", "1", 8), number(1), numbers({3}),
                               numbers({1}), "\x89", ordered_dict(), global("torch", "uint16")});
  const std::string memoised = tensor(floats, 1, {2, 2}, {1, 2}) + "q" + std::string(1, '\0');
  const Items items = {{"a", tensor(floats, 0, {2, 3}, {3, 1})},
                       {"b", memoised},
                       {"c", v3},
                       {"d", "](K\1\x88NG12345678e"},
                       {"e", "h" + std::string(1, '\0')}};
  return archive(whole(dict(items, ordered_dict())),
                 {{"0", std::string(24, 'x')}, {"1", std::string(8, 'y')}});
}

// Answers whether it was read.
bool replay(const std::string& bytes) {
  const auto found = read_bytes(bytes);
  if (!found.ok()) {
    EXPECT_FALSE(found.status().message().empty());
    EXPECT_LT(found.status().message().size(), 480u);
    return false;
  }
  for (const TensorEntry& tensor : found->tensors) {
    if (tensor.n_elements == 0) continue;
    const uint64_t element = dtype_info(tensor.dtype).block_bytes;
    uint64_t last = 0;
    for (size_t d = 0; d < tensor.dims.size(); ++d) {
      last += (tensor.dims[d] - 1) * tensor.strides[d];
    }
    EXPECT_LE(tensor.offset, bytes.size());
    EXPECT_LE((last + 1) * element, bytes.size() - tensor.offset);
    EXPECT_LE(tensor.n_elements * element, bytes.size());
  }
  return true;
}

TEST(Mutations, TheSeedIsRead) {
  EXPECT_TRUE(replay(seed()));
}

TEST(Mutations, EveryPrefixIsRefused) {
  const std::string bytes = seed();
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(replay(bytes.substr(0, n))) << n;
}

TEST(Mutations, FlippedBitsAreReadOrRefused) {
  const std::string good = seed();
  std::mt19937 random(1);
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ (1 << bit));
      replay(bytes);
      bytes[random() % bytes.size()] = static_cast<char>(random());
      bytes[random() % bytes.size()] = static_cast<char>(random() % 2 == 0 ? 0xff : 0);
      replay(bytes);
    }
  }
}

// Any opcodes in any order, most of them ones that torch.save writes.
TEST(Mutations, RandomPicklesAreReadOrRefused) {
  const std::string opcodes = "(.GJKMNQRXabcehqstu])}\x85\x86\x87\x88\x89\x8a\x8c\x93\x94\x95";
  std::mt19937 random(2);
  for (int i = 0; i < 20000; ++i) {
    std::string body;
    for (size_t n = random() % 40; n > 0; --n) {
      body += random() % 8 == 0 ? static_cast<char>(random()) : opcodes[random() % opcodes.size()];
      if (random() % 4 == 0) body += std::string(1 + random() % 4, '\0');
      if (random() % 16 == 0) body += pickle::storage("FloatStorage", "0", 6);
      if (random() % 16 == 0) body += pickle::ordered_dict();
    }
    replay(archive(pickle::whole(body), {{"0", std::string(24, 'x')}}));
  }
}

}  // namespace
}  // namespace bp::pytorch
