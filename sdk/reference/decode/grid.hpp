#pragma once
// Code book entries to values.

#include <cstdint>

namespace bp::reference {

// out[j] = scale * byte j of the entry, negated where bit j of signs is set.
template <class Entry>
inline void write_signed(Entry entry, uint32_t signs, float scale, float* out) {
  for (uint32_t j = 0; j < sizeof(Entry); ++j) {
    const float value = scale * static_cast<float>((entry >> (8 * j)) & 0xff);
    out[j] = (signs >> j) & 1 ? -value : value;
  }
}

}  // namespace bp::reference
