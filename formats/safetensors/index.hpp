#pragma once
// Which tensor lies in which file of a sharded model: model.safetensors.index.json.

#include <map>
#include <string>
#include <vector>

#include "backplane/status.hpp"
#include "formats/safetensors/shard.hpp"

namespace bp::safetensors {

inline constexpr const char* kIndexName = "model.safetensors.index.json";

struct Index {
  std::string path;
  std::map<std::string, std::string> shard_of;  // tensor name to file name
  std::vector<std::string> shards;              // sorted file names, each plain
};

Result<Index> read_index(const std::string& path);

// Every tensor lies in the shard that the index names, and in no other.
Status check_index(const Index& index, const std::vector<Shard>& shards);

}  // namespace bp::safetensors
