#pragma once
// What a file's header may ask of the reader, checked before anything is allocated.

#include <cstdint>

namespace bp::safetensors {

inline constexpr uint64_t kLengthBytes = 8;  // u64 before the header
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;

}  // namespace bp::safetensors
