#pragma once
// Rows of KV blocks to images and back (backplane/ext/kv_transfer.h).

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/kernels/views.hpp"

namespace bp::cuda {

inline constexpr uint32_t kMaxImages = 256;  // of a launch

// K or V of one layer. Images lie image_bytes apart; rows [block_size, n_heads] begin at `images`
// in the first, which is a multiple of 16.
struct KvImageParams {
  KvPlane plane;
  uint8_t* images = nullptr;
  uint64_t image_bytes = 0;
  uint32_t row_bytes = 0;  // in the image
  uint32_t n_images = 0;
  int32_t blocks[kMaxImages] = {};
};

// A thread block for each position of an image.
[[nodiscard]] inline Geometry kv_image_geometry(const KvImageParams& p) {
  return {{p.plane.block_size, p.n_images, 1}, 128, 0};
}
[[nodiscard]] Kernel<KvImageParams> kv_export_kernel(const KvImageParams& p);
[[nodiscard]] Kernel<KvImageParams> kv_import_kernel(const KvImageParams& p);

}  // namespace bp::cuda
