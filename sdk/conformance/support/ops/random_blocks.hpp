#pragma once
// Random blocks of any element type that the reference can decode, for types without an encoder.

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "backplane/dtype.hpp"
#include "backplane/reference/decode.hpp"
#include "backplane/reference/encode.hpp"

namespace bp::conformance {

[[nodiscard]] inline bool has_encoder(bp_dtype dtype) {
  const std::vector<float> zeros(dtype_info(dtype).block_elements);
  std::vector<uint8_t> block(dtype_info(dtype).block_bytes);
  return reference::encode_row(dtype, zeros.data(), zeros.size(), block.data()).ok();
}

// Bytes of n_elements values, each block's largest between 0.25 and 4: random bytes, drawn again
// until the block decodes to that.
[[nodiscard]] inline std::vector<uint8_t> random_blocks(bp_dtype dtype, uint64_t n_elements,
                                                        std::mt19937& engine) {
  constexpr int kMostDraws = 100000;
  const DtypeInfo& info = dtype_info(dtype);
  std::vector<uint8_t> bytes(row_bytes(dtype, n_elements));
  std::vector<float> decoded(info.block_elements);
  std::uniform_int_distribution<int> byte(0, 255);
  for (size_t at = 0; at < bytes.size(); at += info.block_bytes) {
    for (int draw = 0;; ++draw) {
      if (draw == kMostDraws)
        throw std::runtime_error("no usable block of " + std::string(info.name));
      for (size_t i = 0; i < info.block_bytes; ++i) {
        bytes[at + i] = static_cast<uint8_t>(byte(engine));
      }
      const Status status =
          reference::decode_row(dtype, bytes.data() + at, decoded.size(), decoded.data());
      if (!status.ok()) throw std::runtime_error(status.message());
      float largest = 0;
      for (const float x : decoded)
        largest = std::isfinite(x) ? std::max(largest, std::abs(x)) : 1e9f;
      if (largest >= 0.25f && largest <= 4.0f) break;
    }
  }
  return bytes;
}

}  // namespace bp::conformance
