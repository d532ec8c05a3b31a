#include "backends/cpu/weights/weight_arena.hpp"

#include <algorithm>

namespace bp::cpu {

Result<WeightArena::Piece> WeightArena::allocate(size_t n_bytes) {
  const size_t bytes = (n_bytes + 63) / 64 * 64;
  std::shared_ptr<AlignedBuffer> chunk = chunk_.lock();
  if (chunk == nullptr || chunk->size() - used_ < bytes) {
    BP_ASSIGN(AlignedBuffer fresh,
              AlignedBuffer::allocate(std::max(bytes, kChunkBytes), "packed weights"));
    const size_t room = chunk == nullptr ? 0 : chunk->size() - used_;
    auto shared = std::make_shared<AlignedBuffer>(std::move(fresh));
    // The chunk with more room left serves the next piece.
    if (shared->size() - bytes < room) return Piece(shared, shared->data());
    chunk = std::move(shared);
    chunk_ = chunk;
    used_ = 0;
  }
  Piece piece(chunk, chunk->data() + used_);
  used_ += bytes;
  return piece;
}

}  // namespace bp::cpu
