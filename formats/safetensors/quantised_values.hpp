#pragma once
// The numbers of a quantised weight.

#include <cstdint>
#include <string>
#include <vector>

#include "formats/safetensors/quantised.hpp"

namespace bp::safetensors {

Result<std::vector<int64_t>> load_integers(const Part& part);
Result<std::vector<float>> load_floats(const Part& part);

[[nodiscard]] uint64_t n_scales(const QuantisedWeight& weight);

// Its parts in memory, decoded row by row.
class QuantisedValues {
 public:
  static Result<QuantisedValues> load(const QuantisedWeight& weight, bool with_weight);

  // steps: stored - zero; scales: by column. Precondition: loaded with its weight.
  void row(uint64_t row, float* steps, float* scales) const;
  // Whether every zero is `zero`, columns belong to groups in order, and scales are exact in f16.
  [[nodiscard]] bool is_uniform(int32_t zero) const;

 private:
  explicit QuantisedValues(const QuantisedWeight& weight) : w_(&weight) {}
  [[nodiscard]] uint64_t group_of(uint64_t column) const;
  [[nodiscard]] uint64_t scale_index(uint64_t row, uint64_t group) const;
  [[nodiscard]] int32_t zero_of(uint64_t row, uint64_t group) const;
  [[nodiscard]] float stored(uint64_t row, uint64_t column) const;
  [[nodiscard]] uint32_t word(const std::string& bytes, uint64_t index) const;

  const QuantisedWeight* w_;
  std::string weight_;
  std::string zeros_;
  std::vector<float> scales_;
  std::vector<int64_t> group_of_column_;
};

// A block type where the weight is that exactly, else float_type.
Result<bp_dtype> choose_dtype(const QuantisedWeight& weight, bp_dtype float_type);

}  // namespace bp::safetensors
