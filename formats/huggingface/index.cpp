#include "formats/huggingface/index.hpp"

#include <filesystem>
#include <set>

#include "backplane/text.hpp"
#include "formats/huggingface/files.hpp"
#include "formats/huggingface/json_reader.hpp"
#include "formats/huggingface/limits.hpp"

namespace bp::huggingface {

namespace {

// A name that stays in the folder.
bool is_plain(const std::string& name, std::string_view extension) {
  return name.find_first_of("/\\") == std::string::npos && !name.starts_with('.') &&
         name.size() <= 255 && name.ends_with(extension);
}

void read_weight_map(JsonReader& json, std::string_view extension, Index& index) {
  std::set<std::string> shards;
  std::string name;
  for (json.enter_object(); json.next_member(name);) {
    json.require(json.peek() == JsonKind::kString, "a shard must be the name of a file");
    const std::string shard = json.read_string();
    json.require(is_plain(shard, extension), "shard " + quote(shard) + " is no plain name of a " +
                                                 std::string(extension) + " file in the folder");
    shards.insert(shard);
    json.require(shards.size() <= kMaxShards, "too many shards");
    json.require(index.shard_of.size() < kMaxTensors, "too many tensors");
    index.shard_of[name] = shard;
  }
  index.shards.assign(shards.begin(), shards.end());
}

}  // namespace

Result<Index> read_index(const std::string& path, std::string_view extension) {
  BP_ASSIGN(const std::string text, read_whole(path, kMaxIndexBytes));
  Index index;
  index.path = path;
  JsonReader json(text);
  std::string key;
  for (json.enter_object(); json.next_member(key);) {
    if (key == "weight_map") {
      read_weight_map(json, extension, index);
    } else {
      json.skip_value();
    }
  }
  json.expect_end();
  if (!json.ok()) return invalid(path, json.fault());
  if (index.shards.empty()) return invalid(path, "lacks a weight_map with tensors");
  return index;
}

Status check_index(const Index& index, const std::vector<ShardNames>& shards) {
  size_t n_found = 0;
  for (const ShardNames& shard : shards) {
    const std::string file = std::filesystem::path(shard.path).filename().string();
    for (const std::string_view tensor : shard.tensors) {
      const auto entry = index.shard_of.find(std::string(tensor));
      if (entry == index.shard_of.end() || entry->second != file) {
        return invalid(shard.path, "tensor " + quote(tensor) + " lies here, but " +
                                       (entry == index.shard_of.end()
                                            ? "not in the index"
                                            : "in " + quote(entry->second) + " by the index"));
      }
      ++n_found;
    }
  }
  // No tensor stands twice in a shard, so that equal counts mean equal sets.
  if (n_found == index.shard_of.size()) return {};
  return invalid(index.path, "names " + std::to_string(index.shard_of.size()) +
                                 " tensors, but the shards hold " + std::to_string(n_found));
}

}  // namespace bp::huggingface
