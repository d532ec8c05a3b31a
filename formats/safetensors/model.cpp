#include "formats/safetensors/model.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "backplane/dtype.hpp"
#include "backplane/file.hpp"
#include "backplane/text.hpp"
#include "formats/huggingface/files.hpp"
#include "formats/huggingface/folder.hpp"
#include "formats/huggingface/tensor.hpp"
#include "formats/safetensors/limits.hpp"

namespace bp::safetensors {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kExtensions[] = {".safetensors"};
constexpr huggingface::WeightNames kNames = {"model.safetensors", "model.safetensors.index.json",
                                             kExtensions};

uint32_t folder_confidence(const std::string& folder) {
  if (huggingface::has_usual_weights(folder, kNames)) return 90;
  const auto files = huggingface::files_with(folder, kNames);
  if (files.ok() && !files->empty()) return 80;
  return huggingface::has_vocabulary(folder) ? 40 : 0;
}

Status add_notes(const Shard& shard, huggingface::Metadata& metadata) {
  for (const auto& [key, value] : shard.notes) {
    if (!metadata.add_string("safetensors." + key, value)) {
      return huggingface::invalid(shard.path, "too many keys in __metadata__");
    }
  }
  return {};
}

}  // namespace

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
  BP_ASSIGN(model->shards_,
            huggingface::read_shards<Shard>(absolute.string(), is_folder, kNames, read_shard));
  const fs::path folder = is_folder ? absolute : absolute.parent_path();
  BP_TRY(huggingface::read_side_files(folder.string(), model->metadata_));
  if (!model->shards_.empty()) BP_TRY(add_notes(model->shards_[0], model->metadata_));
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
  for (const QuantisedWeight& weight : quantised_.weights) BP_TRY(add_quantised(weight));
  return {};
}

Status Model::add_quantised(const QuantisedWeight& weight) {
  BP_ASSIGN(const bp_tensor tensor, huggingface::describe_tensor(*weight.weight.path, weight.name,
                                                                 weight.dtype, weight.dims));
  tensors.push_back(tensor);
  return {};
}

Status Model::add_tensor(const TensorEntry& entry, uint32_t file) {
  if (entry.n_bytes == 0) return {};  // holds nothing
  BP_ASSIGN(bp_tensor tensor,
            huggingface::describe_tensor(files[file], entry.name, entry.dtype, entry.dims));
  tensor.file = file;
  // A header may have any length: what does not lie on its type's boundary is copied by read.
  const bool is_aligned = entry.offset % dtype_info(entry.dtype).block_bytes == 0;
  if (is_aligned) tensor.offset = entry.offset;
  tensors.push_back(tensor);
  offsets_.push_back(entry.offset);
  return {};
}

Status Model::read(uint64_t tensor, uint64_t first_row, uint64_t n_rows, void* destination) {
  BP_TRY(huggingface::check_rows(tensors, tensor, first_row, n_rows));
  const bp_tensor& t = tensors[tensor];
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
