// "bp.kv-transfer/1": what the interpreter keeps lies as images do, but for the types of floats.

#include <cstring>

#include "backplane/reference/executable.hpp"

namespace bp::reference {

Status ReferenceExecutable::prepare_transfer(bp_kv_image_info& out) {
  images_.describe(out);
  return {};
}

Status ReferenceExecutable::export_blocks(uint32_t group, std::span<const int32_t> blocks,
                                          std::span<uint8_t> images) {
  BP_TRY(images_.check_call(group, blocks, images.size(), n_ids_));
  uint8_t* image = images.data();
  for (const int32_t block : blocks) {
    images_.begin(group, image);
    for (const KvImages::Plane& plane : images_.planes(group)) {
      if (images_.is_state(group)) {
        std::memcpy(image + plane.offset, states_.entry(plane.slot, block), plane.row_bytes);
      } else {
        kv_.export_rows(plane.slot, plane.is_value, block, image + plane.offset);
      }
    }
    image += images_.image_bytes(group);
  }
  return {};
}

Status ReferenceExecutable::import_blocks(uint32_t group, std::span<const int32_t> blocks,
                                          std::span<const uint8_t> images) {
  BP_TRY(images_.check_call(group, blocks, images.size(), n_ids_));
  BP_TRY(images_.check_images(group, blocks, images));
  const uint8_t* image = images.data();
  for (const int32_t block : blocks) {
    for (const KvImages::Plane& plane : images_.planes(group)) {
      if (images_.is_state(group)) {
        std::memcpy(states_.entry(plane.slot, block), image + plane.offset, plane.row_bytes);
      } else {
        kv_.import_rows(plane.slot, plane.is_value, block, image + plane.offset);
      }
    }
    image += images_.image_bytes(group);
  }
  return {};
}

}  // namespace bp::reference
