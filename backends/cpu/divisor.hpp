#pragma once

#include <bit>
#include <cstdint>

namespace bp::cpu {

// What is divided by again and again: by a power of two without a division.
class Divisor {
 public:
  explicit Divisor(uint32_t n)
      : n_(n), shift_(std::has_single_bit(n) ? std::countr_zero(n) : kNone) {}
  [[nodiscard]] operator uint32_t() const { return n_; }  // NOLINT: implicit

  friend uint32_t operator/(uint32_t x, Divisor by) {
    return by.shift_ != kNone ? x >> by.shift_ : x / by.n_;
  }
  friend uint32_t operator%(uint32_t x, Divisor by) { return x - x / by * by.n_; }

 private:
  static constexpr int kNone = -1;
  uint32_t n_;
  int shift_;
};

}  // namespace bp::cpu
