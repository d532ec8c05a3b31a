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
  static void run_chunk(void* self, uint64_t chunk) {
    static_cast<Conversion*>(self)->convert_chunk(chunk);
  }
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  [[nodiscard]] uint64_t rows_of_chunk() const {
    return std::max<uint64_t>(1, kChunkElements / rows_.width);
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
  std::mutex mutex_;
  uint64_t failed_row_ = 0;
  Status status_;
};

}  // namespace

bool fits(bp_dtype dtype, uint64_t width) {
  return width % dtype_info(dtype).block_elements == 0;
}

Status convert_rows(const Rows& rows, bp_dtype to, const Importance& importance,
                    const bp_threads* threads, void* out) {
  if (reference::block_decoder(rows.dtype) == nullptr || !fits(rows.dtype, rows.width)) {
    return invalid_argument("rows of " + std::to_string(rows.width) + " cannot be of type " +
                            std::string(dtype_name(rows.dtype)));
  }
  Conversion conversion(rows, to, importance, out);
  if (threads == nullptr) {
    for (uint64_t i = 0; i < conversion.n_chunks(); ++i) Conversion::run_chunk(&conversion, i);
  } else {
    threads->parallel_for(threads->user, conversion.n_chunks(), Conversion::run_chunk, &conversion);
  }
  return conversion.status();
}

}  // namespace bp::quantize
