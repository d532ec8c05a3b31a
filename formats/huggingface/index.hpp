#pragma once
// Which tensor lies in which file of a sharded model: model.safetensors.index.json and its like.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/status.hpp"

namespace bp::huggingface {

struct Index {
  std::string path;
  std::map<std::string, std::string> shard_of;  // tensor name to file name
  std::vector<std::string> shards;              // sorted file names, each plain
};

// Every shard's name ends in `extension`.
Result<Index> read_index(const std::string& path, std::string_view extension);

// What a shard turned out to hold.
struct ShardNames {
  std::string path;
  std::vector<std::string_view> tensors;  // each once
};

// Every tensor lies in the shard that the index names, and in no other.
Status check_index(const Index& index, const std::vector<ShardNames>& shards);

}  // namespace bp::huggingface
