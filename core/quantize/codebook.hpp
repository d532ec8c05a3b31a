#pragma once
// Super-blocks of 256 values whose short vectors are entries of a code book: iq1, iq2, iq3.
//
// A vector x with weights w, entry g and scale s leaves the error sum w (x - s g)^2, a parabola in
// s. Over the scales that a group can have, most entries lie above another one everywhere; the few
// that do not are found once, after which any number of scales is tried at little cost. This is the
// exhaustive search, not an approximation of it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bp::quantize {

struct CodebookShape {
  int n_dims;      // elements of a vector: 4 or 8
  int n_entries;   // of one variant; a multiple of 64
  int n_variants;  // tables of the same size; a group uses one of them
  int group;       // elements that share a scale
  float unit;      // scale of a group = d * unit * (2 * level + 1)
  int max_level;
  std::vector<float> values;  // [n_dims, n_variants * n_entries]
};

// The table's entries, element j in byte j from the least significant.
template <class Entry, size_t kEntries>
std::vector<float> codebook_values(const std::array<Entry, kEntries>& entries) {
  std::vector<float> values(sizeof(Entry) * kEntries);
  for (size_t k = 0; k < kEntries; ++k) {
    for (size_t j = 0; j < sizeof(Entry); ++j) {
      values[j * kEntries + k] = static_cast<float>((entries[k] >> (8 * j)) & 0xff);
    }
  }
  return values;
}

struct CodebookBlock {
  float d = 0;                        // representable in f16
  std::array<uint8_t, 16> level{};    // by group
  std::array<uint8_t, 16> variant{};  // by group
  std::array<uint16_t, 64> entry{};   // by vector
};

// x, weights: [256]. Where signs are stored apart, x holds magnitudes.
CodebookBlock fit_codebook(const CodebookShape& shape, const float* x, const float* weights);

// The signs of 8 elements each: bit j set where element j is negative. magnitudes: [256], in with
// the signs turned.
struct Signs {
  std::array<uint8_t, 32> bits{};
  std::array<float, 256> magnitudes{};
};
Signs take_signs(const float* in);
// The same with an even number of negative elements in each eight: where it is odd, the element
// that matters least gets the wrong sign, and a negative magnitude.
Signs take_even_signs(const float* in, const float* weights);

}  // namespace bp::quantize
