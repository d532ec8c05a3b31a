#include "formats/safetensors/quantised_values.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "backplane/dtype.hpp"
#include "backplane/file.hpp"
#include "backplane/half.hpp"
#include "backplane/text.hpp"

namespace bp::safetensors {

namespace {

constexpr uint64_t kBlock = 32;  // columns of a block of Q4_0 and Q8_0

// [column % 8] the place of its four bits in a word of AWQ.
constexpr std::array<uint32_t, 8> kAwqPlaces = {0, 4, 1, 5, 2, 6, 3, 7};

Result<std::string> load(const Part& part) {
  if (part.tensor == nullptr) return std::string();
  return read_file(*part.path, part.tensor->offset, part.tensor->n_bytes);
}

template <class T>
T element(const std::string& bytes, uint64_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof value);
  return value;
}

float float_at(bp_dtype dtype, const std::string& bytes, uint64_t i) {
  switch (dtype) {
    case BP_DTYPE_F32:
      return element<float>(bytes, i);
    case BP_DTYPE_F16:
      return f16_to_f32(element<uint16_t>(bytes, i));
    default:
      return bf16_to_f32(element<uint16_t>(bytes, i));
  }
}

void encode_block_row(bp_dtype dtype, const float* steps, const float* scales, uint64_t n,
                      uint8_t* out) {
  for (uint64_t at = 0; at < n; at += kBlock) {
    const uint16_t scale = f32_to_f16(scales[at]);
    std::memcpy(out, &scale, sizeof scale);
    out += sizeof scale;
    if (dtype == BP_DTYPE_Q8_0) {
      for (uint64_t i = 0; i < kBlock; ++i) {
        *out++ = static_cast<uint8_t>(static_cast<int8_t>(steps[at + i]));
      }
      continue;
    }
    const auto nibble = [&](uint64_t i) { return static_cast<uint8_t>(steps[at + i] + 8); };
    for (uint64_t i = 0; i < kBlock / 2; ++i) {
      *out++ = static_cast<uint8_t>(nibble(i) | nibble(i + kBlock / 2) << 4);
    }
  }
}

void encode_float_row(bp_dtype dtype, const float* steps, const float* scales, uint64_t n,
                      uint8_t* out) {
  for (uint64_t i = 0; i < n; ++i) {
    const float value = steps[i] * scales[i];
    if (dtype == BP_DTYPE_F32) {
      std::memcpy(out + 4 * i, &value, sizeof value);
      continue;
    }
    const uint16_t half = dtype == BP_DTYPE_F16 ? f32_to_f16(value) : f32_to_bf16(value);
    std::memcpy(out + 2 * i, &half, sizeof half);
  }
}

}  // namespace

Result<std::vector<int64_t>> load_integers(const Part& part) {
  BP_ASSIGN(const std::string bytes, load(part));
  std::vector<int64_t> values;
  if (part.tensor == nullptr) return values;
  const bool wide = part.tensor->dtype == BP_DTYPE_I64;
  if (!wide && part.tensor->dtype != BP_DTYPE_I32) {
    return invalid_argument("tensor " + quote(part.tensor->name) + " holds no integers");
  }
  values.resize(bytes.size() / (wide ? 8 : 4));
  for (uint64_t i = 0; i < values.size(); ++i) {
    values[i] = wide ? element<int64_t>(bytes, i) : element<int32_t>(bytes, i);
  }
  return values;
}

Result<std::vector<float>> load_floats(const Part& part) {
  BP_ASSIGN(const std::string bytes, load(part));
  std::vector<float> values(bytes.size() / dtype_info(part.tensor->dtype).block_bytes);
  for (uint64_t i = 0; i < values.size(); ++i) values[i] = float_at(part.tensor->dtype, bytes, i);
  return values;
}

uint64_t n_scales(const QuantisedWeight& w) {
  return ((w.rows + w.group_rows - 1) / w.group_rows) *
         ((w.columns + w.group_columns - 1) / w.group_columns);
}

Result<QuantisedValues> QuantisedValues::load(const QuantisedWeight& weight, bool with_weight) {
  QuantisedValues values(weight);
  if (with_weight) {
    BP_ASSIGN(values.weight_, safetensors::load(weight.weight));
  }
  BP_ASSIGN(values.zeros_, safetensors::load(weight.zeros));
  BP_ASSIGN(values.scales_, load_floats(weight.scales));
  if (values.scales_.size() != n_scales(weight)) {
    return invalid_argument("weight " + quote(weight.name) + ": its scales do not fit its shape");
  }
  BP_ASSIGN(values.group_of_column_, load_integers(weight.group_of_column));
  // What compressed-tensors writes for columns in order.
  const bool may_be_unset = weight.packing == Packing::kInRows || weight.packing == Packing::kPlain;
  if (may_be_unset &&
      std::ranges::find(values.group_of_column_, -1) != values.group_of_column_.end()) {
    values.group_of_column_.clear();
  }
  const auto n_groups = static_cast<int64_t>((weight.columns - 1) / weight.group_columns + 1);
  for (const int64_t group : values.group_of_column_) {
    if (group < 0 || group >= n_groups) {
      return invalid_argument("weight " + quote(weight.name) + ": its g_idx names group " +
                              std::to_string(group) + " of " + std::to_string(n_groups));
    }
  }
  return values;
}

uint32_t QuantisedValues::word(const std::string& bytes, uint64_t index) const {
  return element<uint32_t>(bytes, index);
}

uint64_t QuantisedValues::group_of(uint64_t column) const {
  return group_of_column_.empty() ? column / w_->group_columns
                                  : static_cast<uint64_t>(group_of_column_[column]);
}

uint64_t QuantisedValues::scale_index(uint64_t row, uint64_t group) const {
  if (w_->packing == Packing::kGptq || w_->packing == Packing::kAwq) {
    return group * w_->rows + row;
  }
  return row / w_->group_rows * ((w_->columns - 1) / w_->group_columns + 1) + group;
}

int32_t QuantisedValues::zero_of(uint64_t row, uint64_t group) const {
  if (zeros_.empty()) return w_->zero;
  const uint32_t mask = w_->bits == 8 ? 255 : 15;
  const uint64_t per_word = 32 / w_->bits;
  const uint64_t n_groups = w_->columns / w_->group_columns;
  switch (w_->packing) {
    case Packing::kPlain:
      return element<int8_t>(zeros_, scale_index(row, group));
    case Packing::kInRows:
      return static_cast<int32_t>(
          word(zeros_, row / per_word * n_groups + group) >> (row % per_word * w_->bits) & mask);
    case Packing::kGptq:
      return static_cast<int32_t>(
                 word(zeros_, group * ((w_->rows + per_word - 1) / per_word) + row / per_word) >>
                     (row % per_word * w_->bits) &
                 mask) +
             w_->zero;
    case Packing::kAwq:
    case Packing::kMxfp4:
      break;
  }
  return static_cast<int32_t>(
      word(zeros_, group * (w_->rows / 8) + row / 8) >> (4 * kAwqPlaces[row % 8]) & 15);
}

float QuantisedValues::stored(uint64_t row, uint64_t column) const {
  const uint32_t mask = w_->bits == 8 ? 255 : 15;
  const uint64_t per_word = 32 / w_->bits;
  switch (w_->packing) {
    case Packing::kPlain: {
      const uint64_t i = row * w_->columns + column;
      const auto byte = static_cast<uint8_t>(weight_[i]);
      if (w_->weight.tensor->dtype == BP_DTYPE_F8_E4M3) return f8_e4m3_to_f32(byte);
      if (w_->weight.tensor->dtype == BP_DTYPE_F8_E5M2) return f8_e5m2_to_f32(byte);
      return static_cast<float>(static_cast<int8_t>(byte));
    }
    case Packing::kInRows:
      return static_cast<float>(word(weight_, row * (w_->columns / per_word) + column / per_word) >>
                                    (column % per_word * w_->bits) &
                                mask);
    case Packing::kGptq:
      return static_cast<float>(word(weight_, column / per_word * w_->rows + row) >>
                                    (column % per_word * w_->bits) &
                                mask);
    case Packing::kAwq:
    case Packing::kMxfp4:
      break;
  }
  return static_cast<float>(
      word(weight_, column * (w_->rows / 8) + row / 8) >> (4 * kAwqPlaces[row % 8]) & 15);
}

void QuantisedValues::row(uint64_t row, float* steps, float* scales) const {
  for (uint64_t column = 0; column < w_->columns; ++column) {
    const uint64_t group = group_of(column);
    steps[column] = stored(row, column) - static_cast<float>(zero_of(row, group));
    scales[column] = scales_[scale_index(row, group)];
  }
}

bool QuantisedValues::is_uniform(int32_t zero) const {
  for (uint64_t column = 0; column < group_of_column_.size(); ++column) {
    if (group_of(column) != column / w_->group_columns) return false;
  }
  const auto is_exact = [](float scale) { return f16_to_f32(f32_to_f16(scale)) == scale; };
  if (!std::all_of(scales_.begin(), scales_.end(), is_exact)) return false;
  const uint64_t n_groups = (w_->columns - 1) / w_->group_columns + 1;
  for (uint64_t row = 0; row < (zeros_.empty() ? 1 : w_->rows); ++row) {
    for (uint64_t group = 0; group < n_groups; ++group) {
      if (zero_of(row, group) != zero) return false;
    }
  }
  return true;
}

Result<bp_dtype> choose_dtype(const QuantisedWeight& w, bp_dtype float_type) {
  const bool is_float = w.packing == Packing::kPlain && w.weight.tensor->dtype != BP_DTYPE_I8;
  BP_ASSIGN(const QuantisedValues values, QuantisedValues::load(w, false));
  if (is_float || w.columns % kBlock != 0 || w.group_columns % kBlock != 0) return float_type;
  const int32_t middle = w.packing == Packing::kPlain ? 0 : 1 << (w.bits - 1);
  if (!values.is_uniform(middle)) return float_type;
  return w.bits == 4 ? BP_DTYPE_Q4_0 : BP_DTYPE_Q8_0;
}

namespace {

// GGUF's blocks: the exponent, then elements j and j + 16 in byte j.
Status read_mxfp4(const QuantisedWeight& w, uint64_t first_row, uint64_t n_rows, uint8_t* out) {
  constexpr uint64_t kHalf = kBlock / 2;
  const uint64_t n_blocks = n_rows * (w.columns / kBlock);
  const uint64_t first = first_row * (w.columns / kBlock);
  BP_ASSIGN(const std::string pairs,
            read_file(*w.weight.path, w.weight.tensor->offset + first * kHalf, n_blocks * kHalf));
  BP_ASSIGN(const std::string scales,
            read_file(*w.scales.path, w.scales.tensor->offset + first, n_blocks));
  const auto* pair = reinterpret_cast<const uint8_t*>(pairs.data());
  for (uint64_t b = 0; b < n_blocks; ++b, pair += kHalf) {
    *out++ = static_cast<uint8_t>(scales[b]);
    const auto element = [&](uint64_t i) { return pair[i / 2] >> (i % 2 * 4) & 15; };
    for (uint64_t j = 0; j < kHalf; ++j) {
      *out++ = static_cast<uint8_t>(element(j) | element(j + kHalf) << 4);
    }
  }
  return {};
}

}  // namespace

Status QuantisedWeight::read(uint64_t first_row, uint64_t n_rows, void* destination) const {
  if (packing == Packing::kMxfp4) {
    return read_mxfp4(*this, first_row, n_rows, static_cast<uint8_t*>(destination));
  }
  BP_ASSIGN(const QuantisedValues values, QuantisedValues::load(*this, true));
  std::vector<float> steps(columns), step_scales(columns);
  auto* out = static_cast<uint8_t*>(destination);
  for (uint64_t row = first_row; row < first_row + n_rows; ++row) {
    values.row(row, steps.data(), step_scales.data());
    if (is_block_quantised(dtype)) {
      encode_block_row(dtype, steps.data(), step_scales.data(), columns, out);
    } else {
      encode_float_row(dtype, steps.data(), step_scales.data(), columns, out);
    }
    out += row_bytes(dtype, columns);
  }
  return {};
}

}  // namespace bp::safetensors
