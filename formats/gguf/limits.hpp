#pragma once
// What a file may ask of the reader, all checked before anything is allocated.

#include <cstdint>

namespace bp::gguf {

inline constexpr uint64_t kFixedHeaderBytes = 24;  // magic, version, n_tensors, n_kv
inline constexpr uint64_t kMaxKeyValues = 65536;
inline constexpr uint64_t kMaxTensors = 1048576;
inline constexpr uint64_t kMinKeyValueBytes = 13;  // key length, empty key, type, one byte
inline constexpr uint64_t kMinTensorInfoBytes = 24;

inline constexpr uint64_t kMaxKeyBytes = 65535;
inline constexpr uint64_t kMaxTensorNameBytes = 255;
inline constexpr uint64_t kMaxStringBytes = uint64_t{64} << 20;
// Of the metadata in the file, and of its arrays after widening in memory.
inline constexpr uint64_t kMaxMetadataBytes = uint64_t{512} << 20;

inline constexpr uint32_t kDefaultAlignment = 32;
inline constexpr uint32_t kMaxAlignment = 65536;

inline constexpr uint64_t kMaxDim = uint64_t{1} << 40;
inline constexpr uint64_t kMaxElements = uint64_t{1} << 48;

// Name with length, n_dims, 4 dims, type, offset.
inline constexpr uint64_t kMaxTensorInfoBytes = 8 + kMaxTensorNameBytes + 4 + 4 * 8 + 4 + 8;
inline constexpr uint64_t kMaxHeaderBytes =
    kFixedHeaderBytes + kMaxMetadataBytes + kMaxTensors * kMaxTensorInfoBytes;

}  // namespace bp::gguf
