#pragma once
// What follows a product, element by element.

#include <cstdint>

namespace bp::cuda {

// y = soft_cap(scale * (sum + bias)), then activated.
struct Epilogue {
  const float* bias = nullptr;  // [columns], or null
  float scale = 1;
  float softcap = 0;        // 0: none
  uint32_t activation = 0;  // BP_ACT_*
};

}  // namespace bp::cuda
