#pragma once
// Reproducible test data.

#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

namespace bp::conformance {

[[nodiscard]] inline uint32_t seed_of(std::string_view text) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  return hash;
}

// n values of a normal distribution.
[[nodiscard]] inline std::vector<float> normal_values(std::string_view seed, uint64_t n,
                                                      float deviation = 1.0f) {
  std::mt19937 engine(seed_of(seed));
  std::normal_distribution<float> distribution(0.0f, deviation);
  std::vector<float> values(n);
  for (float& value : values) value = distribution(engine);
  return values;
}

}  // namespace bp::conformance
