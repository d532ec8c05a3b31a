#pragma once
// How much longer a file's rules may make a text. No published vocabulary's come near.

#include <cstddef>

namespace bp::text::huggingface {

inline constexpr size_t kMaxReplacementBytes = 1024;
inline constexpr size_t kMaxGrowth = 64;

// Of a text that the steps of a normalizer make longer: past it nothing more is replaced.
[[nodiscard]] constexpr size_t max_normalized_bytes(size_t text_bytes) {
  return 4096 + kMaxGrowth * text_bytes;
}

}  // namespace bp::text::huggingface
