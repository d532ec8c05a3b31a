#include "backends/cuda/weights/upload.hpp"

#include <algorithm>
#include <cstring>

#include "backends/cuda/kernels/formats/planes.hpp"
#include "backplane/dtype.hpp"

namespace bp::cuda {

namespace {

constexpr uint64_t kBufferBytes = uint64_t{16} << 20;  // any row fits: check bounds their widths

}  // namespace

Status Upload::open() {
  BP_ASSIGN(stream_, device_.make_stream());
  const uint64_t n_bytes = std::min(total_bytes_, kBufferBytes);
  for (Buffer& buffer : buffers_) {
    BP_ASSIGN(buffer.memory, device_.allocate(MemoryKind::kPinned, n_bytes, "uploading weights"));
    BP_ASSIGN(buffer.is_copied, device_.make_event());
  }
  return {};
}

Status Upload::add(const SourceRows& rows, uint8_t* to) {
  const uint64_t row_bytes = rows.device_row_bytes();
  const bool is_dense = !rows.as_floats && !is_in_planes(rows.dtype) &&
                        rows.stride_bytes == row_bytes &&
                        bp::row_bytes(rows.dtype, rows.n_columns) == row_bytes;
  const uint64_t rows_at_once = buffers_[0].memory.size() / row_bytes;
  for (uint64_t row = 0; row < rows.n_rows; row += rows_at_once) {
    const uint64_t n = std::min(rows_at_once, rows.n_rows - row);
    BP_TRY(flush());
    uint8_t* const buffer = buffers_[current_].memory.data();
    if (is_dense) {
      std::memcpy(buffer, rows.data + row * row_bytes, n * row_bytes);
    } else {
      for (uint64_t i = 0; i < n; ++i) rows.write_row(row + i, buffer + i * row_bytes);
    }
    n_filled_ = n * row_bytes;
    to_ = to + row * row_bytes;
  }
  return flush();
}

// Sends what the current buffer holds and takes the other one, once its last copy is done.
Status Upload::flush() {
  if (progress_.report(std::min(done_bytes_, total_bytes_), total_bytes_)) {
    return cancelled("uploading the weights was stopped");
  }
  if (n_filled_ == 0) return {};
  Buffer& buffer = buffers_[current_];
  BP_TRY(stream_->copy_to_device(to_, buffer.memory.data(), n_filled_));
  BP_TRY(stream_->record(*buffer.is_copied));
  done_bytes_ += n_filled_;
  n_filled_ = 0;
  current_ = 1 - current_;
  return buffers_[current_].is_copied->synchronize();
}

Status Upload::close() {
  BP_TRY(stream_->synchronize());
  if (progress_.report(total_bytes_, total_bytes_)) {
    return cancelled("uploading the weights was stopped");
  }
  return {};
}

// Buffers are in use until the stream is idle.
Upload::~Upload() {
  if (stream_ != nullptr) static_cast<void>(stream_->synchronize());
}

}  // namespace bp::cuda
