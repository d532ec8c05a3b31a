#pragma once
// The forms of activations that weights take, and rows of them in memory.

#include "backends/cpu/weights/prepared_weight.hpp"

namespace bp::cpu {

// bf16 falls back to floats where kernels have none.
struct ActivationForms {
  bool floats = false;
  bool panels = false;
  bool bf16 = false;
  void serve(const PreparedWeight& weight);
};

// From one row of floats to the next, in elements.
[[nodiscard]] size_t float_stride_of(uint32_t width);

// Rows that are given one by one, for one weight's products.
class ActivationLayout {
 public:
  ActivationLayout(const ActivationForms& forms, uint32_t width) : forms_(forms), width_(width) {}

  [[nodiscard]] const ActivationForms& forms() const { return forms_; }
  // Room that n rows take is n times this at most, in multiples of 64.
  [[nodiscard]] size_t row_bytes(const Kernels& kernels) const;
  [[nodiscard]] Activations place(const Kernels& kernels, uint32_t n_rows, uint8_t* memory) const;

  // Writes rows [begin, end) of those placed, begin being a panel's first: row r is floats(r)
  // [width]. Where panel(r) is not null it is a panel of that row alone, which is copied.
  template <class Floats, class Panel>
  void fill(const Kernels& kernels, const Activations& x, uint32_t begin, uint32_t end,
            Floats&& floats, Panel&& panel) const {
    for_each_panel(begin, end, kernels.max_panel_rows, width_, [&](const PanelPlace& place) {
      for (uint32_t t = 0; t < place.n; ++t) {
        const uint32_t r = place.first + t;
        write(kernels, x, place, t, floats(r), panel(r));
      }
    });
  }

 private:
  [[nodiscard]] size_t panel_row_bytes() const;
  [[nodiscard]] size_t bf16_row_bytes(const Kernels& kernels) const;
  [[nodiscard]] size_t float_row_bytes(const Kernels& kernels) const;
  void write(const Kernels& kernels, const Activations& x, const PanelPlace& place, uint32_t t,
             const float* row, const int32_t* panel) const;

  ActivationForms forms_;
  uint32_t width_;
};

// Row r of x.bf16, whose panels are as Bf16Pack says.
void pack_bf16_row(const Kernels& kernels, const float* row, uint32_t n_columns,
                   const Activations& x, uint32_t r);

// Row t of a panel of n rows, rows in order from 0, from a panel of that row alone: the same bits
// as quantize_row writes.
void copy_panel_row(const int32_t* from, uint32_t n_columns, int32_t* panel, uint32_t n,
                    uint32_t t);

}  // namespace bp::cpu
