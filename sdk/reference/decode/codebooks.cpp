#include "backplane/reference/codebooks.hpp"

#include <cstddef>

namespace bp::reference {

namespace {

#include "codebooks.inc"

// Each entry's packed level indices to one byte per element.
template <class Entry, size_t kEntries, size_t kLevels>
constexpr std::array<Entry, kEntries> expand(const std::array<uint16_t, kEntries>& indices,
                                             const std::array<uint8_t, kLevels>& levels) {
  constexpr uint32_t bits = 16 / sizeof(Entry) == 4 ? 3 : 2;
  std::array<Entry, kEntries> entries{};
  for (size_t i = 0; i < kEntries; ++i) {
    for (uint32_t j = 0; j < sizeof(Entry); ++j) {
      const uint32_t level = (indices[i] >> (bits * j)) & ((1u << bits) - 1);
      entries[i] |= static_cast<Entry>(levels[level]) << (8 * j);
    }
  }
  return entries;
}

}  // namespace

constexpr std::array<uint64_t, 256> kIq2XxsGrid = expand<uint64_t>(kIq2XxsIndices, kIq2XxsLevels);
constexpr std::array<uint64_t, 512> kIq2XsGrid = expand<uint64_t>(kIq2XsIndices, kIq2XsLevels);
constexpr std::array<uint64_t, 1024> kIq2SGrid = expand<uint64_t>(kIq2SIndices, kIq2SLevels);
constexpr std::array<uint64_t, 2048> kIq1Grid = expand<uint64_t>(kIq1Indices, kIq1Levels);
constexpr std::array<uint32_t, 256> kIq3XxsGrid = expand<uint32_t>(kIq3XxsIndices, kIq3XxsLevels);
constexpr std::array<uint32_t, 512> kIq3SGrid = expand<uint32_t>(kIq3SIndices, kIq3SLevels);
constexpr std::array<int8_t, 16> kIq4Values = kIq4Levels;
constexpr std::array<int8_t, 16> kFp4Values = kFp4Levels;

}  // namespace bp::reference
