#include "core/quantize/rows.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "backplane/dtype.hpp"
#include "backplane/reference/decode.hpp"
#include "core/quantize/encode.hpp"

namespace bp::quantize {

namespace {

constexpr uint64_t kChunkElements = 1 << 15;  // what a worker takes at once
// Between two reports, for each worker: half a second's work for the slowest encoders.
constexpr uint64_t kChunksPerReport = 16;

class Conversion {
 public:
  Conversion(const Rows& rows, bp_dtype to, const Importance& importance, void* out)
      : rows_(rows),
        to_(to),
        importance_(importance),
        decode_(reference::block_decoder(rows.dtype)),
        out_(static_cast<uint8_t*>(out)) {}

  [[nodiscard]] uint64_t n_chunks() const {
    return (rows_.n_rows + rows_of_chunk() - 1) / rows_of_chunk();
  }
  [[nodiscard]] uint64_t rows_of_chunk() const {
    return std::max<uint64_t>(1, kChunkElements / rows_.width);
  }
  // Chunks [first, first + n).
  Status run(uint64_t first, uint64_t n, const bp_threads* threads) {
    first_chunk_ = first;
    if (threads == nullptr) {
      for (uint64_t i = 0; i < n; ++i) run_chunk(this, i);
    } else {
      threads->parallel_for(threads->user, n, run_chunk, this);
    }
    return status_;
  }

 private:
  static void run_chunk(void* self, uint64_t i) {
    auto& conversion = *static_cast<Conversion*>(self);
    conversion.convert_chunk(conversion.first_chunk_ + i);
  }

  void convert_chunk(uint64_t chunk) {
    std::vector<float> values(rows_.width);
    const uint64_t first = chunk * rows_of_chunk();
    const uint64_t end = std::min(rows_.n_rows, first + rows_of_chunk());
    for (uint64_t row = first; row < end; ++row) {
      if (const Status status = convert_row(row, values.data()); !status.ok()) {
        return keep_first(row, status);
      }
    }
  }

  Status convert_row(uint64_t row, float* values) const {
    const auto* in = static_cast<const uint8_t*>(rows_.data) + row * rows_.row_stride_bytes;
    const uint64_t n_bytes = row_bytes(to_, rows_.width);
    if (rows_.dtype == to_) {
      std::memcpy(out_ + row * n_bytes, in, n_bytes);
      return {};
    }
    decode_(in, rows_.width / dtype_info(rows_.dtype).block_elements, values);
    const float* importance =
        importance_.values == nullptr
            ? nullptr
            : importance_.values + row / importance_.rows_per_slice * rows_.width;
    return encode_row(to_, values, importance, rows_.width, out_ + row * n_bytes);
  }

  void keep_first(uint64_t row, const Status& status) {
    const std::lock_guard lock(mutex_);
    if (!status_.ok() && failed_row_ < row) return;
    failed_row_ = row;
    status_ = status.with_context("row " + std::to_string(row));
  }

  const Rows& rows_;
  const bp_dtype to_;
  const Importance& importance_;
  const reference::BlockDecoder decode_;
  uint8_t* const out_;
  uint64_t first_chunk_ = 0;  // of those being converted
  std::mutex mutex_;
  uint64_t failed_row_ = 0;
  Status status_;
};

}  // namespace

bool fits(bp_dtype dtype, uint64_t width) {
  return width % dtype_info(dtype).block_elements == 0;
}

Status convert_rows(const Rows& rows, bp_dtype to, const Importance& importance,
                    const bp_threads* threads, void* out, base::WorkProgress* progress) {
  if (reference::block_decoder(rows.dtype) == nullptr || !fits(rows.dtype, rows.width)) {
    return invalid_argument("rows of " + std::to_string(rows.width) + " cannot be of type " +
                            std::string(dtype_name(rows.dtype)));
  }
  Conversion conversion(rows, to, importance, out);
  const uint64_t n_chunks = conversion.n_chunks();
  const uint64_t n_at_once = kChunksPerReport * (threads == nullptr ? 1 : threads->n_threads);
  for (uint64_t chunk = 0; chunk < n_chunks; chunk += n_at_once) {
    const uint64_t n = std::min(n_at_once, n_chunks - chunk);
    BP_TRY(conversion.run(chunk, n, threads));
    if (progress == nullptr) continue;
    const uint64_t first_row = chunk * conversion.rows_of_chunk();
    const uint64_t n_rows = std::min(n * conversion.rows_of_chunk(), rows.n_rows - first_row);
    BP_TRY(progress->add(n_rows * rows.width));
  }
  return {};
}

}  // namespace bp::quantize
