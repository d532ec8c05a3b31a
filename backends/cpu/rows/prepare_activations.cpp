#include "backends/cpu/rows/prepare_activations.hpp"

#include <algorithm>
#include <cstring>

#include "backends/cpu/round_up.hpp"

namespace bp::cpu {

size_t ActivationMaker::panel_bytes(uint32_t n_rows, const Kernels& kernels) const {
  if (!forms_.panels) return 0;
  return round_up(panels_words(n_rows, kernels.max_panel_rows, source_.width) * sizeof(int32_t),
                  64);
}

size_t ActivationMaker::bf16_bytes(uint32_t n_rows, const Kernels& kernels) const {
  if (!forms_.bf16 || kernels.bf16_pack == nullptr) return 0;
  return round_up(size_t{n_rows} * source_.width * kernels.bf16_bytes, 64);
}

size_t ActivationMaker::float_bytes(uint32_t n_rows, const Kernels& kernels) const {
  return keeps_floats(kernels) ? n_rows * float_stride_of(source_.width) * sizeof(float) : 0;
}

size_t ActivationMaker::bytes(uint32_t n_rows, const Kernels& kernels) const {
  return panel_bytes(n_rows, kernels) + bf16_bytes(n_rows, kernels) + float_bytes(n_rows, kernels);
}

bool ActivationMaker::keeps_floats(const Kernels& kernels) const {
  const bool wanted = forms_.floats || (forms_.bf16 && kernels.bf16_pack == nullptr);
  return wanted && !source_.is_plain();
}

// One row, then up to kPrivateRows prepared: fewer may take more, since they fall into narrower
// panels.
size_t ActivationMaker::scratch_bytes(const Kernels& kernels) const {
  size_t most = 0;
  for (uint32_t n = 1; n <= kPrivateRows; ++n) most = std::max(most, bytes(n, kernels));
  return float_stride_of(source_.width) * sizeof(float) + most;
}

bool ActivationMaker::is_private(uint32_t n_rows, const Kernels& kernels) const {
  if (n_rows > kPrivateRows) return false;
  return n_rows <= kernels.max_panel_rows || n_rows * source_.width <= kPrivateValues;
}

PhaseItems ActivationMaker::items(const StepContext& step) const {
  const uint32_t n_rows = source_.count.of(step);
  const uint32_t width = step.kernels->max_panel_rows;
  return {is_private(n_rows, *step.kernels) ? 0 : (n_rows + width - 1) / width};
}

void ActivationMaker::run(const StepContext& step, uint8_t* scratch, Items& items) const {
  const uint32_t width = step.kernels->max_panel_rows;
  for (uint32_t panel; (panel = items.next()) != WorkShares::kNone;) {
    const uint32_t n_rows = source_.count.of(step);
    const Activations out = place(step, n_rows, step.shared);
    fill(step, panel * width, std::min((panel + 1) * width, n_rows), out,
         reinterpret_cast<float*>(scratch));
  }
}

Activations ActivationMaker::get(const StepContext& step, uint8_t* scratch) const {
  const uint32_t n_rows = source_.count.of(step);
  if (!is_private(n_rows, *step.kernels)) return place(step, n_rows, step.shared);
  auto* row = reinterpret_cast<float*>(scratch);
  const Activations out =
      place(step, n_rows, scratch + float_stride_of(source_.width) * sizeof(float));
  fill(step, 0, n_rows, out, row);
  return out;
}

Activations ActivationMaker::place(const StepContext& step, uint32_t n_rows,
                                   uint8_t* memory) const {
  Activations out;
  out.n_rows = n_rows;
  if (forms_.panels) {
    out.panels = reinterpret_cast<const int32_t*>(memory);
    memory += panel_bytes(n_rows, *step.kernels);
  }
  if (const size_t n_bytes = bf16_bytes(n_rows, *step.kernels); n_bytes > 0) {
    out.bf16 = memory;
    memory += n_bytes;
  }
  if (keeps_floats(*step.kernels)) {
    out.floats = reinterpret_cast<const float*>(memory);
    out.float_stride = float_stride_of(source_.width);
  } else if (source_.is_plain()) {
    const RowsView& rows = step.values[source_.buffer];
    out.floats = rows.row(source_.first(step));
    out.float_stride = rows.stride;
  }
  return out;
}

void ActivationMaker::fill(const StepContext& step, uint32_t begin, uint32_t end,
                           const Activations& out, float* scratch) const {
  const Kernels& kernels = *step.kernels;
  const bool keeps = keeps_floats(kernels);
  auto* floats = const_cast<float*>(out.floats);
  auto* words = const_cast<int32_t*>(out.panels);
  for_each_panel(begin, end, kernels.max_panel_rows, source_.width, [&](const PanelPlace& panel) {
    for (uint32_t t = 0; t < panel.n; ++t) {
      const float* row = source_.row(step, panel.first + t);
      float* own = keeps ? floats + (panel.first + t) * out.float_stride : scratch;
      if (source_.norm) {
        normalize_row(kernels, *source_.norm, row, source_.width, own);
        row = own;
      } else if (keeps) {
        std::memcpy(own, row, source_.width * sizeof(float));
      }
      if (out.bf16 != nullptr) {
        pack_bf16_row(kernels, row, source_.width, out, panel.first + t);
      }
      if (forms_.panels) {
        kernels.quantize_row(row, source_.width, words + panel.word, panel.n, t,
                             max_seconds(panel.n, source_.width));
      }
    }
  });
}

}  // namespace bp::cpu
