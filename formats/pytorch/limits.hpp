#pragma once
// What a file may ask of the reader, all checked before anything is allocated.

#include <cstddef>
#include <cstdint>

namespace bp::pytorch {

inline constexpr uint64_t kMaxZipEntries = 1048576;
inline constexpr uint64_t kMaxZipNameBytes = 4096;
inline constexpr uint64_t kMaxDirectoryBytes = uint64_t{256} << 20;

inline constexpr uint64_t kMaxPickleBytes = uint64_t{64} << 20;
inline constexpr uint64_t kMaxInstructions = 8'000'000;
inline constexpr size_t kMaxStack = 1'000'000;
inline constexpr size_t kMaxMemo = 4'000'000;
inline constexpr size_t kMaxMarks = 64;  // the depth of what is built, for each level has one
inline constexpr size_t kMaxGlobalBytes = 256;

}  // namespace bp::pytorch
