#pragma once
// What the files of a Hugging Face folder may ask of a reader, all checked before anything is
// allocated.

#include <cstdint>

namespace bp::huggingface {

inline constexpr uint64_t kMaxIndexBytes = 100'000'000;
inline constexpr uint64_t kMaxConfigBytes = uint64_t{16} << 20;
inline constexpr uint64_t kMaxTokenizerBytes = uint64_t{256} << 20;
inline constexpr uint64_t kMaxTemplateBytes = uint64_t{16} << 20;

inline constexpr uint64_t kMaxShards = 65536;
inline constexpr uint64_t kMaxKeyValues = 65536;
inline constexpr uint32_t kMaxJsonDepth = 64;

inline constexpr uint64_t kMaxTensors = 1048576;
inline constexpr uint64_t kMaxTensorNameBytes = 4096;
inline constexpr uint64_t kMaxDim = uint64_t{1} << 40;
inline constexpr uint64_t kMaxElements = uint64_t{1} << 48;

}  // namespace bp::huggingface
