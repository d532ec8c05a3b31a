#pragma once
// How much the columns of weights count: the mean square of each of their inputs over some text.
// Kept in a GGUF file with general.type "imatrix" and for each weight NAME
//   NAME.in_sum2  f32 [n_matrices, width]  sums of the squares of the inputs
//   NAME.counts   f32 [n_matrices, 1]      rows that were summed
// n_matrices being the experts of a stack, or 1. imatrix.datasets names the texts,
// imatrix.chunk_count and imatrix.chunk_size say how many tokens of them were run.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backplane/status.hpp"
#include "core/model/model_file.hpp"

namespace bp::convert {

struct InputSquares {
  uint64_t width = 0;
  std::vector<float> sums;    // [n_matrices, width]
  std::vector<float> counts;  // [n_matrices]
};

struct ImportanceMatrix {
  std::string path;  // that it was read from
  std::vector<std::string> datasets;
  uint32_t n_chunks = 0;
  uint32_t chunk_size = 0;                        // tokens
  std::map<std::string, InputSquares> by_weight;  // GGUF names
};

Status write_importance(const ImportanceMatrix& matrix, const std::string& path);
// Errors name the file, the tensor and the rule.
Result<ImportanceMatrix> read_importance(model::ModelFile& file);

// Means [n_matrices, width] for a weight of that many matrices and columns; empty where the matrix
// knows nothing of it. An error where it knows another shape.
Result<std::vector<float>> mean_squares(const ImportanceMatrix& matrix, const std::string& weight,
                                        uint64_t n_matrices, uint64_t width);

}  // namespace bp::convert
