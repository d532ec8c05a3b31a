// "bp.kv-transfer/1": blocks and state entries as images in the caller's memory.

#include "backends/cpu/executable.hpp"

namespace bp::cpu {

Status CpuExecutable::prepare_transfer(bp_kv_image_info& out) {
  images_.describe(out);
  return {};
}

Status CpuExecutable::export_blocks(uint32_t group, std::span<const int32_t> blocks,
                                    std::span<uint8_t> images) {
  BP_TRY(images_.check_call(group, blocks, images.size(), n_ids_));
  const uint64_t image_bytes = images_.image_bytes(group);
  team_->parallel_for(blocks.size(), [&](uint64_t i) {
    uint8_t* image = images.data() + i * image_bytes;
    if (!images_.is_state(group)) return kv_.export_block(images_, group, blocks[i], image);
    images_.begin(group, image);
    for (const KvImages::Plane& plane : images_.planes(group)) {
      states_.export_entry(plane.slot, blocks[i], image + plane.offset);
    }
  });
  return {};
}

Status CpuExecutable::import_blocks(uint32_t group, std::span<const int32_t> blocks,
                                    std::span<const uint8_t> images) {
  BP_TRY(images_.check_call(group, blocks, images.size(), n_ids_));
  BP_TRY(images_.check_images(group, blocks, images));
  const uint64_t image_bytes = images_.image_bytes(group);
  team_->parallel_for(blocks.size(), [&](uint64_t i) {
    const uint8_t* image = images.data() + i * image_bytes;
    if (!images_.is_state(group)) return kv_.import_block(images_, group, blocks[i], image);
    for (const KvImages::Plane& plane : images_.planes(group)) {
      states_.import_entry(plane.slot, blocks[i], image + plane.offset);
    }
  });
  return {};
}

}  // namespace bp::cpu
