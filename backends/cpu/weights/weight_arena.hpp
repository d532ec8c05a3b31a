#pragma once
// Memory of packed weights: pieces cut one after another from chunks of huge pages, so that small
// weights share them. A chunk lives as long as one of its pieces.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backends/cpu/aligned_buffer.hpp"
#include "backplane/status.hpp"

namespace bp::cpu {

class WeightArena {
 public:
  static constexpr size_t kChunkBytes = size_t{64} << 20;

  using Piece = std::shared_ptr<uint8_t>;

  // n_bytes of zeros at a multiple of 64. Not for two threads at once.
  Result<Piece> allocate(size_t n_bytes);

 private:
  std::weak_ptr<AlignedBuffer> chunk_;  // that still has room
  size_t used_ = 0;                     // of it
};

}  // namespace bp::cpu
