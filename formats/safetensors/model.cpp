#include "formats/safetensors/model.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "backplane/dtype.hpp"
#include "backplane/file.hpp"
#include "backplane/text.hpp"
#include "formats/safetensors/files.hpp"
#include "formats/safetensors/folder.hpp"
#include "formats/safetensors/limits.hpp"

namespace bp::safetensors {

namespace fs = std::filesystem;

uint32_t Model::probe(std::string_view path, bool is_folder, std::span<const uint8_t> head) {
  if (is_folder) return folder_confidence(std::string(path));
  if (head.size() > kLengthBytes && head[kLengthBytes] == '{') {
    uint64_t length = 0;
    std::memcpy(&length, head.data(), sizeof length);
    if (length >= 2 && length <= kMaxHeaderBytes) return 90;
  }
  // So that what is wrong with it is said by this plugin.
  return path.ends_with(".safetensors") ? 10 : 0;
}

Result<std::unique_ptr<ModelFile>> Model::open(const Host&, const std::string& path) {
  const fs::path absolute = fs::absolute(path);
  std::error_code error;
  const bool is_folder = fs::is_directory(absolute, error);
  auto model = std::make_unique<Model>();
  model->dialect = "huggingface";
  BP_ASSIGN(model->shards_, read_shards(absolute.string(), is_folder));
  const fs::path folder = is_folder ? absolute : absolute.parent_path();
  BP_TRY(read_side_files(folder.string(), model->shards_, model->metadata_));
  model->metadata = model->metadata_.entries();
  BP_ASSIGN(model->quantised_, find_quantised(model->shards_, {model->metadata}));
  BP_TRY(model->add_tensors());
  return std::unique_ptr<ModelFile>(std::move(model));
}

Status Model::add_tensors() {
  const auto& parts = quantised_.parts;
  for (const Shard& shard : shards_) {
    const auto file = static_cast<uint32_t>(files.size());
    files.push_back(shard.path);
    for (const TensorEntry& entry : shard.tensors) {
      if (std::binary_search(parts.begin(), parts.end(), &entry)) continue;
      BP_TRY(add_tensor(entry, file));
    }
  }
  for (const QuantisedWeight& weight : quantised_.weights) add_quantised(weight);
  return {};
}

void Model::add_quantised(const QuantisedWeight& weight) {
  bp_tensor tensor{};
  tensor.name = to_bp_str(weight.name);
  tensor.dtype = weight.dtype;
  tensor.n_dims = 2;
  tensor.dims[0] = weight.rows;
  tensor.dims[1] = weight.columns;
  tensor.row_stride_bytes = row_bytes(weight.dtype, weight.columns);
  tensor.offset = BP_NO_OFFSET;
  tensor.n_bytes = weight.rows * tensor.row_stride_bytes;
  tensors.push_back(tensor);
}

Status Model::add_tensor(const TensorEntry& entry, uint32_t file) {
  if (entry.n_bytes == 0) return {};  // holds nothing
  if (entry.dims.size() > BP_MAX_DIMS) {
    return unsupported(shortened_path(files[file]) + ": tensor " + quote(entry.name) + ": " +
                       std::to_string(entry.dims.size()) + " dimensions; supported are 4");
  }
  bp_tensor tensor{};
  tensor.name = to_bp_str(entry.name);
  tensor.dtype = entry.dtype;
  tensor.n_dims = static_cast<uint32_t>(std::max<size_t>(entry.dims.size(), 1));
  tensor.dims[0] = 1;
  std::copy(entry.dims.begin(), entry.dims.end(), tensor.dims);
  tensor.row_stride_bytes = row_bytes(entry.dtype, tensor.dims[tensor.n_dims - 1]);
  tensor.file = file;
  // A header may have any length: what does not lie on its type's boundary is copied by read.
  const bool is_aligned = entry.offset % dtype_info(entry.dtype).block_bytes == 0;
  tensor.offset = is_aligned ? entry.offset : BP_NO_OFFSET;
  tensor.n_bytes = entry.n_bytes;
  tensors.push_back(tensor);
  offsets_.push_back(entry.offset);
  return {};
}

Status Model::read(uint64_t tensor, uint64_t first_row, uint64_t n_rows, void* destination) {
  if (tensor >= tensors.size()) {
    return invalid_argument("tensor " + std::to_string(tensor) + " of " +
                            std::to_string(tensors.size()));
  }
  const bp_tensor& t = tensors[tensor];
  const uint64_t rows = t.n_bytes / t.row_stride_bytes;
  if (first_row > rows || n_rows > rows - first_row) {
    return invalid_argument("tensor " + quote(view(t.name)) + " has " + std::to_string(rows) +
                            " rows, asked for " + std::to_string(n_rows) + " from " +
                            std::to_string(first_row));
  }
  if (tensor >= offsets_.size()) {
    return quantised_.weights[tensor - offsets_.size()].read(first_row, n_rows, destination);
  }
  BP_ASSIGN(const std::string bytes,
            read_file(files[t.file], offsets_[tensor] + first_row * t.row_stride_bytes,
                      n_rows * t.row_stride_bytes));
  std::memcpy(destination, bytes.data(), bytes.size());
  return {};
}

}  // namespace bp::safetensors
