#pragma once
// "bp.kv-transfer/1": blocks and state entries as images in host memory. Rows of scattered blocks
// are gathered on the device, and one copy brings them to pinned memory; imports go the other way.

#include <span>

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/kv_cache.hpp"
#include "backends/cuda/state_cache.hpp"
#include "backplane/kv_images.hpp"

namespace bp::cuda {

// Ordered on the stream, behind the steps in flight, which may write the blocks or still read what
// was in them; done when a call returns.
class BlockTransfer {
 public:
  BlockTransfer(const ProgramView& program, const KvCache& kv);

  // Takes memory for some images at a time, on both sides.
  Status allocate(Device& device);
  Status load_kernels(Stream& loader, const KvCache& kv) const;
  // Of the device.
  [[nodiscard]] size_t n_bytes() const { return on_device_.size(); }
  [[nodiscard]] const KvImages& images() const { return images_; }

  Status export_blocks(Stream& stream, const KvCache& kv, const StateCache& states, uint32_t group,
                       std::span<const int32_t> blocks, std::span<uint8_t> images);
  Status import_blocks(Stream& stream, const KvCache& kv, const StateCache& states, uint32_t group,
                       std::span<const int32_t> blocks, std::span<const uint8_t> images);

 private:
  [[nodiscard]] Status check(const KvCache& kv, const StateCache& states, uint32_t group,
                             std::span<const int32_t> blocks, size_t images_bytes) const;
  enum class Direction { kToImages, kToCache };
  // Between the cache and images on the device.
  Status move(Stream& stream, const KvCache& kv, const StateCache& states, uint32_t group,
              std::span<const int32_t> blocks, Direction direction) const;
  Status move_rows(Stream& stream, const KvCache& kv, uint32_t group,
                   std::span<const int32_t> blocks, Direction direction) const;
  Status move_states(Stream& stream, const StateCache& states, uint32_t group,
                     std::span<const int32_t> entries, Direction direction) const;

  KvImages images_;
  uint32_t n_at_once_ = 0;  // images that the memory below has room for
  Memory on_device_, pinned_;
};

}  // namespace bp::cuda
