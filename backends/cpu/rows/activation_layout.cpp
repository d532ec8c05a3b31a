#include "backends/cpu/rows/activation_layout.hpp"

#include <algorithm>
#include <cstring>

#include "backends/cpu/round_up.hpp"

namespace bp::cpu {

namespace {

void copy_record(const int32_t* from, int32_t* record, uint32_t n, uint32_t t) {
  constexpr uint32_t kQuantWords = kPanelColumns / sizeof(int32_t);
  if (n == kTileRows) {
    std::memcpy(record + kQuantWords * t, from, kPanelColumns);
  } else {
    for (uint32_t k = 0; k < kQuantWords; ++k) record[k * n + t] = from[k];
  }
  for (uint32_t k = kQuantWords; k < kPanelWords; ++k) record[k * n + t] = from[k];
}

}  // namespace

void ActivationForms::serve(const PreparedWeight& weight) {
  panels = panels || weight.takes_panels();
  bf16 = bf16 || weight.takes_bf16();
  floats = floats || (!weight.takes_panels() && !weight.takes_bf16());
}

// Rows whole pages apart would meet in the same lines of the first-level cache.
size_t float_stride_of(uint32_t width) {
  constexpr size_t kLine = 64 / sizeof(float), kPage = 4096 / sizeof(float);
  const size_t stride = round_up(width, kLine);
  return stride % kPage == 0 ? stride + kLine : stride;
}

// A panel has at most a second record for each block.
size_t ActivationLayout::panel_row_bytes() const {
  if (!forms_.panels) return 0;
  const uint32_t n_blocks = width_ / kPanelColumns;
  const size_t words = panel_records_word(n_blocks, 1) + size_t{2} * n_blocks * kPanelWords;
  return round_up(words * sizeof(int32_t), 64);
}

size_t ActivationLayout::bf16_row_bytes(const Kernels& kernels) const {
  if (!forms_.bf16 || kernels.bf16_pack == nullptr) return 0;
  return round_up(width_ * kernels.bf16_bytes, 64);
}

size_t ActivationLayout::float_row_bytes(const Kernels& kernels) const {
  const bool wanted = forms_.floats || (forms_.bf16 && kernels.bf16_pack == nullptr);
  return wanted ? float_stride_of(width_) * sizeof(float) : 0;
}

size_t ActivationLayout::row_bytes(const Kernels& kernels) const {
  return panel_row_bytes() + bf16_row_bytes(kernels) + float_row_bytes(kernels);
}

Activations ActivationLayout::place(const Kernels& kernels, uint32_t n_rows,
                                    uint8_t* memory) const {
  Activations x;
  x.n_rows = n_rows;
  if (forms_.panels) x.panels = reinterpret_cast<const int32_t*>(memory);
  memory += n_rows * panel_row_bytes();
  if (bf16_row_bytes(kernels) > 0) x.bf16 = memory;
  memory += n_rows * bf16_row_bytes(kernels);
  if (float_row_bytes(kernels) > 0) x.floats = reinterpret_cast<const float*>(memory);
  x.float_stride = float_row_bytes(kernels) / sizeof(float);
  return x;
}

void ActivationLayout::write(const Kernels& kernels, const Activations& x, const PanelPlace& place,
                             uint32_t t, const float* row, const int32_t* panel) const {
  const uint32_t r = place.first + t;
  if (x.floats != nullptr) {
    std::memcpy(const_cast<float*>(x.floats) + r * x.float_stride, row, width_ * sizeof(float));
  }
  if (x.bf16 != nullptr) pack_bf16_row(kernels, row, width_, x, r);
  if (x.panels == nullptr) return;
  int32_t* words = const_cast<int32_t*>(x.panels) + place.word;
  if (panel != nullptr) {
    copy_panel_row(panel, width_, words, place.n, t);
  } else {
    kernels.quantize_row(row, width_, words, place.n, t, max_seconds(place.n, width_));
  }
}

void pack_bf16_row(const Kernels& kernels, const float* row, uint32_t n_columns,
                   const Activations& x, uint32_t r) {
  const uint32_t most = kernels.bf16_panel_rows, first = r / most * most;
  kernels.bf16_pack(row, n_columns,
                    const_cast<uint8_t*>(x.bf16) + size_t{first} * n_columns * kernels.bf16_bytes,
                    std::min(most, x.n_rows - first), r - first);
}

void copy_panel_row(const int32_t* from, uint32_t n_columns, int32_t* panel, uint32_t n,
                    uint32_t t) {
  const uint32_t n_blocks = n_columns / kPanelColumns;
  const int32_t* from_records = from + panel_records_word(n_blocks, 1);
  const int32_t* from_seconds = from_records + size_t{n_blocks} * kPanelWords;
  int32_t* records = panel + panel_records_word(n_blocks, n);
  int32_t* seconds = records + size_t{n_blocks} * kPanelWords * n;
  int32_t* second_of = panel + 1;
  if (t == 0) {
    panel[0] = 0;
    std::fill_n(second_of, n_blocks, -1);
  }
  const uint32_t header = panel_header_words(n_blocks);
  for (uint32_t k = 0; k < half_sum_words(n_blocks); ++k) {
    panel[header + k * n + t] = from[header + k];
  }
  for (uint32_t b = 0; b < n_blocks; ++b) {
    copy_record(from_records + size_t{b} * kPanelWords, records + size_t{b} * kPanelWords * n, n,
                t);
    const int32_t from_second = from[1 + b];
    if (from_second < 0) continue;
    if (second_of[b] < 0) {
      second_of[b] = panel[0]++;
      std::fill_n(seconds + static_cast<size_t>(second_of[b]) * kPanelWords * n, kPanelWords * n,
                  0);
    }
    copy_record(from_seconds + static_cast<size_t>(from_second) * kPanelWords,
                seconds + static_cast<size_t>(second_of[b]) * kPanelWords * n, n, t);
  }
}

}  // namespace bp::cpu
