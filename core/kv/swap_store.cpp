#include "core/kv/swap_store.hpp"

#include <new>

namespace bp::kv {

SwapStore::Images::~Images() {
  if (store_ != nullptr) store_->used_bytes_ -= n_bytes_;
}

void SwapStore::Images::swap(Images& other) noexcept {
  std::swap(store_, other.store_);
  std::swap(bytes_, other.bytes_);
  std::swap(n_bytes_, other.n_bytes_);
  std::swap(n_tokens_, other.n_tokens_);
}

SwapStore::Images SwapStore::take(uint64_t n_bytes, uint32_t n_tokens) {
  Images images;
  if (n_bytes == 0 || n_bytes > room_bytes_ - used_bytes_) return images;
  images.bytes_.reset(new (std::nothrow) uint8_t[n_bytes]);
  if (images.bytes_ == nullptr) return images;
  images.store_ = this;
  images.n_bytes_ = n_bytes;
  images.n_tokens_ = n_tokens;
  used_bytes_ += n_bytes;
  return images;
}

}  // namespace bp::kv
