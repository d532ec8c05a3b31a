#include "core/convert/importance.hpp"

#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "backplane/metadata.hpp"
#include "backplane/plugin.hpp"
#include "core/convert/gguf_writer.hpp"

namespace bp::convert {

namespace {

constexpr std::string_view kSums = ".in_sum2", kCounts = ".counts";

Result<std::vector<float>> read_floats(model::ModelFile& file, const bp_tensor& tensor) {
  BP_ASSIGN(const model::TensorData data, file.data(tensor));
  const std::string place = fmt::format("{}: tensor '{}'", file.path(), view(tensor.name));
  if (tensor.dtype != BP_DTYPE_F32) return invalid_argument(place + " is not f32");
  std::vector<float> values(data.n_bytes / sizeof(float));
  std::memcpy(values.data(), data.data, values.size() * sizeof(float));
  for (const float value : values) {
    if (!std::isfinite(value) || value < 0) {
      return invalid_argument(place + " has a value that is no sum of squares");
    }
  }
  return values;
}

Result<InputSquares> read_squares(model::ModelFile& file, const std::string& weight,
                                  const bp_tensor& sums) {
  if (sums.n_dims == 0) {
    return invalid_argument(
        fmt::format("{}: tensor '{}' has no dimensions", file.path(), view(sums.name)));
  }
  InputSquares squares;
  squares.width = sums.dims[sums.n_dims - 1];
  BP_ASSIGN(squares.sums, read_floats(file, sums));
  const bp_tensor* counts = file.find_tensor(weight + std::string(kCounts));
  if (counts == nullptr) {
    return invalid_argument(
        fmt::format("{}: tensor '{}{}' is missing", file.path(), weight, kCounts));
  }
  BP_ASSIGN(squares.counts, read_floats(file, *counts));
  if (squares.counts.size() * squares.width != squares.sums.size()) {
    return invalid_argument(fmt::format("{}: '{}' has {} sums of width {} and {} counts",
                                        file.path(), weight, squares.sums.size(), squares.width,
                                        squares.counts.size()));
  }
  return squares;
}

}  // namespace

Status write_importance(const ImportanceMatrix& matrix, const std::string& path) {
  GgufMetadata metadata;
  metadata.put("general.type", std::string_view("imatrix"));
  metadata.put("imatrix.datasets", std::span(matrix.datasets));
  metadata.put("imatrix.chunk_count", matrix.n_chunks);
  metadata.put("imatrix.chunk_size", matrix.chunk_size);
  std::vector<GgufTensor> tensors;
  for (const auto& [name, squares] : matrix.by_weight) {
    const uint64_t n_matrices = squares.counts.size();
    tensors.push_back({name + std::string(kSums), BP_DTYPE_F32, {n_matrices, squares.width}});
    tensors.push_back({name + std::string(kCounts), BP_DTYPE_F32, {n_matrices, 1}});
  }
  BP_ASSIGN(GgufWriter writer, GgufWriter::create(path));
  BP_TRY(writer.begin(metadata, tensors, 32));
  for (const auto& [name, squares] : matrix.by_weight) {
    BP_TRY(writer.append(squares.sums.data(), squares.sums.size() * sizeof(float)));
    BP_TRY(writer.append(squares.counts.data(), squares.counts.size() * sizeof(float)));
  }
  return writer.finish();
}

Result<ImportanceMatrix> read_importance(model::ModelFile& file) {
  const auto type = file.metadata().get_or<std::string_view>("general.type", "");
  if (!type.ok() || *type != "imatrix") {
    return invalid_argument(file.path() +
                            ": is no importance matrix (general.type is not imatrix); "
                            "`backplane imatrix` writes one");
  }
  ImportanceMatrix matrix;
  matrix.path = file.path();
  BP_ASSIGN(const auto datasets, file.metadata().array<std::string_view>("imatrix.datasets"));
  for (uint64_t i = 0; i < datasets.size(); ++i) matrix.datasets.emplace_back(datasets[i]);
  BP_ASSIGN(matrix.n_chunks, file.metadata().get<uint32_t>("imatrix.chunk_count"));
  BP_ASSIGN(matrix.chunk_size, file.metadata().get<uint32_t>("imatrix.chunk_size"));
  for (const bp_tensor& tensor : file.tensors()) {
    const std::string_view name = view(tensor.name);
    if (!name.ends_with(kSums)) continue;
    const std::string weight(name.substr(0, name.size() - kSums.size()));
    BP_ASSIGN(matrix.by_weight[weight], read_squares(file, weight, tensor));
  }
  return matrix;
}

Result<std::vector<float>> mean_squares(const ImportanceMatrix& matrix, const std::string& weight,
                                        uint64_t n_matrices, uint64_t width) {
  const auto found = matrix.by_weight.find(weight);
  if (found == matrix.by_weight.end()) return std::vector<float>();
  const InputSquares& squares = found->second;
  if (squares.width != width || squares.counts.size() != n_matrices) {
    return invalid_argument(
        fmt::format("{}: '{}' is of {} matrices with {} columns, and the model's of {} with {}; "
                    "the file belongs "
                    "to another model",
                    matrix.path, weight, squares.counts.size(), squares.width, n_matrices, width));
  }
  std::vector<float> means(squares.sums.size());
  for (size_t i = 0; i < means.size(); ++i) {
    const float count = squares.counts[i / width];
    means[i] = count > 0 ? squares.sums[i] / count : 0.0f;
  }
  return means;
}

}  // namespace bp::convert
