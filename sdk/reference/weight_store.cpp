#include "backplane/reference/weight_store.hpp"

#include <algorithm>
#include <string_view>

#include "backplane/dtype.hpp"

namespace bp::reference {

namespace {

// CacheWeights::kAuto keeps decoded matrices up to this size.
constexpr uint64_t kMaxAutoBytes = uint64_t{1} << 30;

uint64_t rows_of(const bp_weight_part& part) {
  uint64_t n = 1;
  for (uint32_t d = 0; d + 1 < part.n_dims; ++d) n *= part.dims[d];
  return n;
}

bool reads_few_rows(std::string_view kind) {
  return kind == BP_OP_EMBED || kind == BP_OP_GATHER;
}

// Weights whose every row is read in each step.
std::vector<bool> multiplied_weights(const ProgramView& program) {
  std::vector<bool> used(program.weights().size());
  for (const bp_op& op : program.ops()) {
    if (reads_few_rows(kind_of(op))) continue;
    for (const uint32_t w : weight_slots(op)) {
      if (w != BP_NONE) used[w] = true;
    }
  }
  return used;
}

}  // namespace

WeightRows::WeightRows(const bp_weight_part& part)
    : data_(static_cast<const uint8_t*>(part.data)),
      decode_(block_decoder(part.dtype)),
      n_rows_(rows_of(part)),
      width_(part.dims[part.n_dims - 1]),
      stride_bytes_(part.row_stride_bytes),
      n_blocks_(width_ / dtype_info(part.dtype).block_elements) {
  const bool aligned = reinterpret_cast<uintptr_t>(data_) % alignof(float) == 0;
  const bool dense = n_rows_ == 1 || stride_bytes_ == width_ * sizeof(float);
  if (part.dtype == BP_DTYPE_F32 && aligned && dense) {
    decoded_ = reinterpret_cast<const float*>(data_);
  }
}

const float* WeightRows::row(uint64_t i, float* scratch) const {
  if (decoded_ != nullptr) return decoded_ + i * width_;
  decode_(data_ + i * stride_bytes_, n_blocks_, scratch);
  return scratch;
}

WeightStore::WeightStore(const ProgramView& program) {
  rows_.reserve(program.weights().size());
  for (const bp_weight& weight : program.weights()) rows_.emplace_back(*data_part(weight));
  decoded_.resize(rows_.size());
}

Status WeightStore::decode(const ProgramView& program, CacheWeights mode,
                           const Progress& progress) {
  const std::vector<bool> multiplied = multiplied_weights(program);
  uint64_t matrix_bytes = 0;
  for (uint32_t w = 0; w < rows_.size(); ++w) {
    if (multiplied[w]) matrix_bytes += rows_[w].n_rows() * rows_[w].width() * sizeof(float);
  }
  const bool matrices = mode == CacheWeights::kAlways ||
                        (mode == CacheWeights::kAuto && matrix_bytes <= kMaxAutoBytes);
  for (uint32_t w = 0; w < rows_.size(); ++w) {
    if (progress.report(w, rows_.size())) return cancelled("decoding the weights was stopped");
    if (rows_[w].n_rows() == 1 || (matrices && multiplied[w])) keep(w);
  }
  return {};
}

uint64_t WeightStore::max_width() const {
  uint64_t width = 0;
  for (const WeightRows& rows : rows_) width = std::max(width, rows.width());
  return width;
}

void WeightStore::keep(uint32_t weight) {
  WeightRows& rows = rows_[weight];
  if (rows.is_decoded()) return;
  decoded_[weight].resize(rows.n_rows() * rows.width());
  for (uint64_t i = 0; i < rows.n_rows(); ++i) {
    static_cast<void>(rows.row(i, decoded_[weight].data() + i * rows.width()));
  }
  rows.set_decoded(decoded_[weight].data());
  decoded_bytes_ += decoded_[weight].size() * sizeof(float);
}

}  // namespace bp::reference
