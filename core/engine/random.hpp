#pragma once
// Random numbers that depend on where they are used and on nothing that happened before.

#include <array>
#include <cstdint>

namespace bp::engine {

// Philox 4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
[[nodiscard]] constexpr std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                                                       std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// Which token of which choice is drawn.
struct DrawKey {
  uint64_t seed = 0;
  uint32_t choice = 0;
  uint32_t position = 0;
};

// Uniform in [0, 1), a multiple of 2^-53.
[[nodiscard]] constexpr double uniform(const DrawKey& key, uint32_t stage, uint32_t draw) {
  const auto bits =
      philox({key.position, key.choice, stage, draw},
             {static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32)});
  const uint64_t joined = (uint64_t{bits[0]} << 32 | bits[1]) >> 11;
  return static_cast<double>(joined) * 0x1p-53;
}

}  // namespace bp::engine
