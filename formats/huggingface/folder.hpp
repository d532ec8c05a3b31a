#pragma once
// What a path names: a model's folder, or one file of it with the others beside.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backplane/status.hpp"
#include "formats/huggingface/index.hpp"
#include "formats/huggingface/metadata.hpp"

namespace bp::huggingface {

// How one format names the weights in a folder.
struct WeightNames {
  std::string_view whole;                        // "model.safetensors"
  std::string_view index;                        // "model.safetensors.index.json"
  std::span<const std::string_view> extensions;  // ".safetensors"; the first is that of shards
};

struct WeightFiles {
  std::vector<std::string> paths;
  std::optional<Index> index;  // of which the paths are the shards
};

// The folder's weights by either of their usual names.
[[nodiscard]] bool has_usual_weights(const std::string& folder, const WeightNames& names);
// Its files with one of the extensions.
Result<std::vector<std::string>> files_with(const std::string& folder, const WeightNames& names);
[[nodiscard]] bool has_vocabulary(const std::string& folder);

// The files to read: of a folder the shards of its index, the whole file, or the only one; none
// where there is only a vocabulary. Of a file, itself.
Result<WeightFiles> find_weights(const std::string& path, bool is_folder, const WeightNames& names);

// Those files, each read by Result<Shard> read(path), and held against the index. A shard has
// `tensors`, each with a name.
template <class Shard, class Read>
Result<std::vector<Shard>> read_shards(const std::string& path, bool is_folder,
                                       const WeightNames& names, Read&& read) {
  BP_ASSIGN(const WeightFiles files, find_weights(path, is_folder, names));
  std::vector<Shard> shards;
  std::vector<ShardNames> held;
  for (const std::string& file : files.paths) {
    BP_ASSIGN(Shard shard, read(file));
    shards.push_back(std::move(shard));
    held.push_back({file, {}});
    for (const auto& tensor : shards.back().tensors) held.back().tensors.push_back(tensor.name);
  }
  if (files.index) BP_TRY(check_index(*files.index, held));
  return shards;
}

// config.json as config.*, generation_config.json as generation_config.*, and as they are the
// tokenizer's files and the chat template (see the README).
Status read_side_files(const std::string& folder, Metadata& metadata);

}  // namespace bp::huggingface
