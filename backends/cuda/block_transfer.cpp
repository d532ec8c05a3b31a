#include "backends/cuda/block_transfer.hpp"

#include <algorithm>
#include <cstring>

#include "backends/cuda/kernels/kv_image.hpp"

namespace bp::cuda {

namespace {

// Large enough for copies at full speed, small beside any cache.
constexpr uint64_t kStagingBytes = uint64_t{16} << 20;

}  // namespace

BlockTransfer::BlockTransfer(const ProgramView& program, const KvCache& kv)
    : images_(program, kv.block_size(), kv.k_dtype(), kv.v_dtype()) {}

Status BlockTransfer::allocate(Device& device) {
  if (n_at_once_ > 0) return invalid_argument("transfers are prepared already");
  uint64_t largest = 1;
  for (uint32_t g = 0; g < images_.n_groups(); ++g) {
    largest = std::max(largest, images_.image_bytes(g));
  }
  const auto n = std::clamp<uint64_t>(kStagingBytes / largest, 1, kMaxImages);
  BP_ASSIGN(on_device_, device.allocate(MemoryKind::kDevice, n * largest, "images of KV blocks"));
  BP_ASSIGN(pinned_, device.allocate(MemoryKind::kPinned, n * largest, "images of KV blocks"));
  n_at_once_ = static_cast<uint32_t>(n);
  return {};
}

Status BlockTransfer::load_kernels(Stream& loader, const KvCache& kv) const {
  const int32_t block = 0;
  for (uint32_t g = 0; g < images_.n_groups(); ++g) {
    if (images_.is_state(g)) continue;
    for (const Direction direction : {Direction::kToImages, Direction::kToCache}) {
      BP_TRY(move_rows(loader, kv, g, {&block, 1}, direction));
    }
  }
  return {};
}

Status BlockTransfer::check(const KvCache& kv, const StateCache& states, uint32_t group,
                            std::span<const int32_t> blocks, size_t images_bytes) const {
  if (n_at_once_ == 0) return invalid_argument("transfers have not been prepared");
  std::vector<uint32_t> n_ids(kv.n_blocks().begin(), kv.n_blocks().end());
  if (kv.is_allocated() && states.n_slots() > 0) n_ids.push_back(states.n_entries());
  return images_.check_call(group, blocks, images_bytes, n_ids);
}

Status BlockTransfer::export_blocks(Stream& stream, const KvCache& kv, const StateCache& states,
                                    uint32_t group, std::span<const int32_t> blocks,
                                    std::span<uint8_t> images) {
  BP_TRY(check(kv, states, group, blocks, images.size()));
  const uint64_t image_bytes = images_.image_bytes(group);
  while (!blocks.empty()) {
    const size_t n = std::min<size_t>(blocks.size(), n_at_once_);
    BP_TRY(move(stream, kv, states, group, blocks.first(n), Direction::kToImages));
    BP_TRY(stream.copy_to_host(pinned_.data(), on_device_.data(), n * image_bytes));
    BP_TRY(stream.synchronize());
    std::memcpy(images.data(), pinned_.data(), n * image_bytes);
    for (size_t i = 0; i < n; ++i) images_.begin(group, images.data() + i * image_bytes);
    blocks = blocks.subspan(n);
    images = images.subspan(n * image_bytes);
  }
  return {};
}

Status BlockTransfer::import_blocks(Stream& stream, const KvCache& kv, const StateCache& states,
                                    uint32_t group, std::span<const int32_t> blocks,
                                    std::span<const uint8_t> images) {
  BP_TRY(check(kv, states, group, blocks, images.size()));
  BP_TRY(images_.check_images(group, blocks, images));
  const uint64_t image_bytes = images_.image_bytes(group);
  while (!blocks.empty()) {
    const size_t n = std::min<size_t>(blocks.size(), n_at_once_);
    std::memcpy(pinned_.data(), images.data(), n * image_bytes);
    BP_TRY(stream.copy_to_device(on_device_.data(), pinned_.data(), n * image_bytes));
    BP_TRY(move(stream, kv, states, group, blocks.first(n), Direction::kToCache));
    BP_TRY(stream.synchronize());
    blocks = blocks.subspan(n);
    images = images.subspan(n * image_bytes);
  }
  return {};
}

Status BlockTransfer::move(Stream& stream, const KvCache& kv, const StateCache& states,
                           uint32_t group, std::span<const int32_t> blocks,
                           Direction direction) const {
  return images_.is_state(group) ? move_states(stream, states, group, blocks, direction)
                                 : move_rows(stream, kv, group, blocks, direction);
}

Status BlockTransfer::move_rows(Stream& stream, const KvCache& kv, uint32_t group,
                                std::span<const int32_t> blocks, Direction direction) const {
  KvImageParams p;
  p.image_bytes = images_.image_bytes(group);
  p.n_images = static_cast<uint32_t>(blocks.size());
  std::copy(blocks.begin(), blocks.end(), p.blocks);
  for (const KvImages::Plane& plane : images_.planes(group)) {
    p.plane = plane.is_value ? kv.v(plane.slot) : kv.k(plane.slot);
    p.images = on_device_.data() + plane.offset;
    p.row_bytes = static_cast<uint32_t>(plane.row_bytes);
    const auto kernel =
        direction == Direction::kToImages ? kv_export_kernel(p) : kv_import_kernel(p);
    BP_TRY(stream.launch(kernel, kv_image_geometry(p), p));
  }
  return {};
}

Status BlockTransfer::move_states(Stream& stream, const StateCache& states, uint32_t group,
                                  std::span<const int32_t> entries, Direction direction) const {
  uint8_t* image = on_device_.data();
  for (const int32_t entry : entries) {
    for (const KvImages::Plane& plane : images_.planes(group)) {
      float* kept = states.entries(plane.slot) + static_cast<uint64_t>(entry) * plane.head_dim;
      uint8_t* there = image + plane.offset;
      BP_TRY(direction == Direction::kToImages
                 ? stream.copy_on_device(there, kept, plane.row_bytes)
                 : stream.copy_on_device(kept, there, plane.row_bytes));
    }
    image += images_.image_bytes(group);
  }
  return {};
}

}  // namespace bp::cuda
