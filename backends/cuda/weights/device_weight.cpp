#include "backends/cuda/weights/device_weight.hpp"

#include <cstring>
#include <vector>

#include "backends/cuda/kernels/formats/planes.hpp"
#include "backplane/dtype.hpp"
#include "backplane/reference/decode.hpp"

namespace bp::cuda {

namespace {

constexpr uint64_t kRowAlignment = 16;
constexpr uint32_t kGroup = 8;  // columns that kernels read together

void write_planes(const SourceRows& rows, const uint8_t* in, uint8_t* out) {
  const auto& info = dtype_info(rows.dtype);
  const uint64_t n_blocks = rows.n_columns / info.block_elements;
  const PlaneList list = planes_of(rows.dtype);
  for (uint32_t i = 0; i < list.n_planes; ++i) {
    const Plane& plane = list.planes[i];
    uint8_t* to = out;
    for (uint64_t b = 0; b < n_blocks; ++b, to += plane.n_bytes) {
      std::memcpy(to, in + b * info.block_bytes + plane.offset, plane.n_bytes);
    }
    std::memset(to, 0, static_cast<size_t>(out + plane_bytes(plane, n_blocks) - to));
    out += plane_bytes(plane, n_blocks);
  }
}

}  // namespace

SourceRows SourceRows::of(const bp_weight_part& part, bool as_floats) {
  SourceRows rows;
  rows.data = static_cast<const uint8_t*>(part.data);
  rows.stride_bytes = part.row_stride_bytes;
  rows.n_rows = 1;
  for (uint32_t d = 0; d + 1 < part.n_dims; ++d) rows.n_rows *= part.dims[d];
  rows.n_columns = static_cast<uint32_t>(part.dims[part.n_dims - 1]);
  rows.dtype = part.dtype;
  rows.as_floats = as_floats;
  return rows;
}

uint64_t SourceRows::source_bytes() const {
  return (n_rows - 1) * stride_bytes + row_bytes(dtype, n_columns);
}

uint64_t SourceRows::device_row_bytes() const {
  if (as_floats) return uint64_t{n_columns} * sizeof(float);
  if (is_in_planes(dtype)) {
    return bytes_in_planes(dtype, n_columns / dtype_info(dtype).block_elements);
  }
  const uint64_t n = is_block_quantised(dtype) ? n_columns : round_up(n_columns, kGroup);
  return (row_bytes(dtype, n) + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
}

uint64_t SourceRows::device_bytes() const {
  return n_rows * device_row_bytes();
}

void SourceRows::write_row(uint64_t row, uint8_t* out) const {
  const uint8_t* in = data + row * stride_bytes;
  if (as_floats) {
    const auto& info = dtype_info(dtype);
    std::vector<float> floats(n_columns);
    reference::block_decoder(dtype)(in, n_columns / info.block_elements, floats.data());
    std::memcpy(out, floats.data(), floats.size() * sizeof(float));
    return;
  }
  if (is_in_planes(dtype)) return write_planes(*this, in, out);
  const uint64_t n_bytes = row_bytes(dtype, n_columns);
  std::memcpy(out, in, n_bytes);
  std::memset(out + n_bytes, 0, device_row_bytes() - n_bytes);
}

}  // namespace bp::cuda
