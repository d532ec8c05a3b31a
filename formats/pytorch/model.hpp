#pragma once
// A whole model as the ABI shows it.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/format.hpp"
#include "formats/huggingface/metadata.hpp"
#include "formats/pytorch/state_dict.hpp"

namespace bp::pytorch {

class Model final : public ModelFile {
 public:
  static uint32_t probe(std::string_view path, bool is_folder, std::span<const uint8_t> head);
  static Result<std::unique_ptr<ModelFile>> open(const Host& host, const std::string& path);

  Status read(uint64_t tensor, uint64_t first_row, uint64_t n_rows, void* destination) override;

 private:
  Status add_tensors();

  std::vector<StateDict> shards_;
  std::vector<const TensorEntry*> entries_;  // by tensor
  huggingface::Metadata metadata_;
};

}  // namespace bp::pytorch
