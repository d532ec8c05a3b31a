#pragma once
// What a path names: a model's folder, or one file of it with the others beside.

#include <string>
#include <vector>

#include "backplane/status.hpp"
#include "formats/safetensors/metadata.hpp"
#include "formats/safetensors/shard.hpp"

namespace bp::safetensors {

// How sure one can be, 0 to 100, that a folder is read by this plugin.
uint32_t folder_confidence(const std::string& folder);

// The shards in the folder, none where it holds only a vocabulary; or the one file.
Result<std::vector<Shard>> read_shards(const std::string& path, bool is_folder);

// config.json as config.*, generation_config.json as generation_config.*, __metadata__ as
// safetensors.*, and as they are the tokenizer's files and the chat template (see the README).
Status read_side_files(const std::string& folder, const std::vector<Shard>& shards,
                       Metadata& metadata);

}  // namespace bp::safetensors
