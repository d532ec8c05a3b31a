#include "formats/pytorch/model.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "backplane/dtype.hpp"
#include "backplane/file.hpp"
#include "backplane/json_metadata.hpp"
#include "backplane/metadata.hpp"
#include "backplane/text.hpp"
#include "formats/huggingface/folder.hpp"
#include "formats/huggingface/tensor.hpp"

namespace bp::pytorch {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kExtensions[] = {".bin", ".pt", ".pth"};
constexpr huggingface::WeightNames kNames = {"pytorch_model.bin", "pytorch_model.bin.index.json",
                                             kExtensions};

// Below what the same folder's safetensors get.
uint32_t folder_confidence(const std::string& folder) {
  if (huggingface::has_usual_weights(folder, kNames)) return 70;
  const auto files = huggingface::files_with(folder, kNames);
  return files.ok() && files->size() == 1 ? 60 : 0;
}

bool has_extension(std::string_view path) {
  return std::ranges::any_of(kExtensions, [&](std::string_view e) { return path.ends_with(e); });
}

Result<StateDict> read_file_of_weights(const std::string& path) {
  BP_ASSIGN(const FileBytes bytes, FileBytes::of_file(path));
  return read_state_dict(bytes);
}

Status check_not_quantised(MetadataView metadata) {
  BP_ASSIGN(const auto method, json_value_or<std::string_view>(
                                   metadata, "config.quantization_config.quant_method", ""));
  if (method.empty()) return {};
  return unsupported("config.json: quantization_config.quant_method " + quote(method) +
                     ": quantised weights are read from safetensors alone");
}

// Elements [first, first + n) in the order of the dims, out of a storage's bytes, of which `origin`
// is where the tensor's first element lies.
class Gatherer {
 public:
  Gatherer(const TensorEntry& tensor, uint64_t first) : tensor_(tensor), at_(tensor.dims.size()) {
    for (size_t d = at_.size(); d-- > 0; first /= tensor.dims[d]) at_[d] = first % tensor.dims[d];
    for (size_t d = 0; d < at_.size(); ++d) place_ += at_[d] * tensor.strides[d];
  }

  void copy(uint64_t n, uint64_t element_bytes, const char* origin, char* to) {
    for (uint64_t i = 0; i < n; ++i, to += element_bytes, advance()) {
      std::memcpy(to, origin + place_ * element_bytes, element_bytes);
    }
  }

 private:
  void advance() {
    for (size_t d = at_.size(); d-- > 0;) {
      place_ += tensor_.strides[d];
      if (++at_[d] < tensor_.dims[d]) return;
      place_ -= at_[d] * tensor_.strides[d];
      at_[d] = 0;
    }
  }

  const TensorEntry& tensor_;
  std::vector<uint64_t> at_;  // by dim
  uint64_t place_ = 0;        // elements from the tensor's first
};

}  // namespace

uint32_t Model::probe(std::string_view path, bool is_folder, std::span<const uint8_t> head) {
  if (is_folder) return folder_confidence(std::string(path));
  const std::string_view bytes(reinterpret_cast<const char*>(head.data()), head.size());
  if (bytes.starts_with("PK\3\4")) {
    // Any archive begins so; torch's have this entry first.
    const bool is_torch = bytes.find("/data.pkl") != std::string_view::npos;
    return has_extension(path) ? 90 : is_torch ? 60 : 0;
  }
  // So that what is wrong with a bare pickle is said by this plugin.
  const bool is_pickle = bytes.size() > 1 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;
  return is_pickle && has_extension(path) ? 10 : 0;
}

Result<std::unique_ptr<ModelFile>> Model::open(const Host&, const std::string& path) {
  const fs::path absolute = fs::absolute(path);
  std::error_code error;
  const bool is_folder = fs::is_directory(absolute, error);
  auto model = std::make_unique<Model>();
  model->dialect = "huggingface";
  BP_ASSIGN(model->shards_, huggingface::read_shards<StateDict>(absolute.string(), is_folder,
                                                                kNames, read_file_of_weights));
  const fs::path folder = is_folder ? absolute : absolute.parent_path();
  BP_TRY(huggingface::read_side_files(folder.string(), model->metadata_));
  model->metadata = model->metadata_.entries();
  BP_TRY(check_not_quantised({model->metadata}));
  BP_TRY(model->add_tensors());
  return std::unique_ptr<ModelFile>(std::move(model));
}

Status Model::add_tensors() {
  for (const StateDict& shard : shards_) {
    const auto file = static_cast<uint32_t>(files.size());
    files.push_back(shard.path);
    for (const TensorEntry& entry : shard.tensors) {
      if (entry.n_elements == 0) continue;  // holds nothing
      BP_ASSIGN(bp_tensor tensor,
                huggingface::describe_tensor(shard.path, entry.name, entry.dtype, entry.dims));
      tensor.file = file;
      // What lies otherwise is copied by read.
      const bool is_aligned = entry.offset % dtype_info(entry.dtype).block_bytes == 0;
      if (is_aligned && entry.is_contiguous()) tensor.offset = entry.offset;
      tensors.push_back(tensor);
      entries_.push_back(&entry);
    }
  }
  return {};
}

Status Model::read(uint64_t tensor, uint64_t first_row, uint64_t n_rows, void* destination) {
  BP_TRY(huggingface::check_rows(tensors, tensor, first_row, n_rows));
  const bp_tensor& t = tensors[tensor];
  const TensorEntry& entry = *entries_[tensor];
  const uint64_t element = dtype_info(t.dtype).block_bytes;
  uint64_t span = 1;
  for (size_t d = 0; d < entry.dims.size(); ++d) span += (entry.dims[d] - 1) * entry.strides[d];
  BP_ASSIGN(const std::string bytes, read_file(files[t.file], entry.offset, span * element));
  const uint64_t row = t.row_stride_bytes / element;
  Gatherer(entry, first_row * row)
      .copy(n_rows * row, element, bytes.data(), static_cast<char*>(destination));
  return {};
}

}  // namespace bp::pytorch
