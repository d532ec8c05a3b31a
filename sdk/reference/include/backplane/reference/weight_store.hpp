#pragma once
// Weights as float32 rows, decoded row by row or kept decoded.

#include <cstdint>
#include <span>
#include <vector>

#include "backplane/backend.hpp"
#include "backplane/program_view.hpp"
#include "backplane/reference/decode.hpp"

namespace bp::reference {

enum class CacheWeights { kAuto, kAlways, kNever };

// One weight as a matrix: all dimensions but the last count rows. [any-thread]
class WeightRows {
 public:
  WeightRows() = default;
  explicit WeightRows(const bp_weight_part& part);

  [[nodiscard]] uint64_t n_rows() const { return n_rows_; }
  [[nodiscard]] uint64_t width() const { return width_; }
  // Row i where it already lies in memory as floats, or decoded into scratch [width].
  [[nodiscard]] const float* row(uint64_t i, float* scratch) const;

  [[nodiscard]] bool is_decoded() const { return decoded_ != nullptr; }
  // Keeps rows [0, n_rows) decoded at `floats`, which outlives this.
  void set_decoded(const float* floats) { decoded_ = floats; }

 private:
  const uint8_t* data_ = nullptr;
  const float* decoded_ = nullptr;
  BlockDecoder decode_ = nullptr;
  uint64_t n_rows_ = 0;
  uint64_t width_ = 0;
  uint64_t stride_bytes_ = 0;
  uint64_t n_blocks_ = 0;  // of a row
};

class WeightStore {
 public:
  // The program has passed validation, and its data outlives the store.
  explicit WeightStore(const ProgramView& program);

  // Decodes every vector, and the matrices that ops multiply with if `mode` or their size allows.
  Status decode(const ProgramView& program, CacheWeights mode, const Progress& progress);

  [[nodiscard]] const WeightRows& operator[](uint32_t weight) const { return rows_[weight]; }
  [[nodiscard]] uint64_t decoded_bytes() const { return decoded_bytes_; }
  [[nodiscard]] uint64_t max_width() const;

 private:
  void keep(uint32_t weight);

  std::vector<WeightRows> rows_;
  std::vector<std::vector<float>> decoded_;
  uint64_t decoded_bytes_ = 0;
};

}  // namespace bp::reference
