#include "formats/gguf/model.hpp"

#include <filesystem>
#include <utility>

#include "backplane/plugin.hpp"
#include "formats/gguf/split.hpp"

namespace bp::gguf {

Result<std::unique_ptr<Model>> Model::open(const std::string& path) {
  BP_ASSIGN(HeaderBytes bytes, HeaderBytes::open(std::filesystem::absolute(path).string()));
  BP_ASSIGN(Part first, read_part(std::move(bytes)));
  BP_ASSIGN(std::vector<Part> parts, read_all_parts(std::move(first)));
  return std::make_unique<Model>(std::move(parts));
}

Model::Model(std::vector<Part> parts)
    : parts_(std::move(parts)), view_(make_growable<bp_model_file>()) {
  for (uint32_t file = 0; file < parts_.size(); ++file) {
    paths_.push_back(parts_[file].bytes.path().c_str());
    for (const TensorInfo& info : parts_[file].tensors) {
      tensors_.push_back(info.tensor);
      tensors_.back().file = file;
    }
  }
  // Later parts of a split model hold nothing but the keys of the split.
  const std::vector<bp_metadata>& metadata = parts_[0].metadata;
  view_.n_files = static_cast<uint32_t>(paths_.size());
  view_.dialect = "gguf";
  view_.files = paths_.data();
  view_.n_metadata = metadata.size();
  view_.metadata = metadata.data();
  view_.n_tensors = tensors_.size();
  view_.tensors = tensors_.data();
  view_.impl = this;
}

}  // namespace bp::gguf
