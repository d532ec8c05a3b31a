#pragma once

#include <cstddef>

namespace bp::cpu {

// The next multiple of `to` from n on.
[[nodiscard]] constexpr size_t round_up(size_t n, size_t to) {
  return (n + to - 1) / to * to;
}

}  // namespace bp::cpu
