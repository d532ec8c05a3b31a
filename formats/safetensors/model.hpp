#pragma once
// A whole model as the ABI shows it.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/format.hpp"
#include "formats/huggingface/metadata.hpp"
#include "formats/safetensors/quantised.hpp"
#include "formats/safetensors/shard.hpp"

namespace bp::safetensors {

class Model final : public ModelFile {
 public:
  static uint32_t probe(std::string_view path, bool is_folder, std::span<const uint8_t> head);
  static Result<std::unique_ptr<ModelFile>> open(const Host& host, const std::string& path);

  Status read(uint64_t tensor, uint64_t first_row, uint64_t n_rows, void* destination) override;

 private:
  Status add_tensors();
  Status add_tensor(const TensorEntry& entry, uint32_t file);
  Status add_quantised(const QuantisedWeight& weight);

  std::vector<Shard> shards_;
  huggingface::Metadata metadata_;
  Quantised quantised_;
  std::vector<uint64_t>
      offsets_;  // by tensor, of its first byte in its file; quantised ones follow
};

}  // namespace bp::safetensors
