#include "formats/safetensors/folder.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "backplane/text.hpp"
#include "formats/safetensors/files.hpp"
#include "formats/safetensors/index.hpp"
#include "formats/safetensors/limits.hpp"

namespace bp::safetensors {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".safetensors";
constexpr const char* kWholeName = "model.safetensors";

// Files that are handed on as one string.
struct RawFile {
  const char* name;
  const char* key;
  uint64_t max_bytes;
};
constexpr std::array<RawFile, 5> kRawFiles = {{
    {"tokenizer.json", "tokenizer.huggingface.json", kMaxTokenizerBytes},
    {"tokenizer_config.json", "tokenizer.huggingface.config", kMaxConfigBytes},
    {"special_tokens_map.json", "tokenizer.huggingface.special_tokens_map", kMaxConfigBytes},
    {"tokenizer.model", "tokenizer.sentencepiece.model", kMaxTokenizerBytes},
    {"chat_template.jinja", "tokenizer.chat_template", kMaxTemplateBytes},
}};

std::string in(const std::string& folder, const std::string& name) {
  return (fs::path(folder) / name).string();
}

bool is_one_of_several(const std::string& path) {
  const std::string stem = fs::path(path).stem().string();
  const size_t of = stem.rfind("-of-");
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  if (of == std::string::npos || !is_number(std::string_view(stem).substr(of + 4))) return false;
  const size_t dash = stem.rfind('-', of - 1);
  if (of == 0 || dash == std::string::npos) return false;
  return is_number(std::string_view(stem).substr(dash + 1, of - dash - 1)) &&
         std::stoull("0" + stem.substr(of + 4).substr(0, 9)) > 1;
}

Result<std::vector<std::string>> weight_files(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == kExtension) names.push_back(entry->path().string());
    if (names.size() > kMaxShards) return invalid(folder, "too many .safetensors files");
  }
  if (error) return io_error(shortened_path(folder) + ": " + error.message());
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::vector<Shard>> one_shard(const std::string& path) {
  if (is_one_of_several(path)) {
    return invalid(path, "one part of several: open the folder, whose " + std::string(kIndexName) +
                             " lists them all");
  }
  BP_ASSIGN(Shard shard, read_shard(path));
  std::vector<Shard> shards;
  shards.push_back(std::move(shard));
  return shards;
}

Result<std::vector<Shard>> indexed_shards(const std::string& folder) {
  BP_ASSIGN(const Index index, read_index(in(folder, kIndexName)));
  std::vector<Shard> shards;
  for (const std::string& name : index.shards) {
    BP_ASSIGN(Shard shard, read_shard(in(folder, name)));
    shards.push_back(std::move(shard));
  }
  BP_TRY(check_index(index, shards));
  return shards;
}

Status add_file(const std::string& folder, const std::string& name, Metadata& metadata) {
  const std::string path = in(folder, name + ".json");
  if (!exists(path)) return {};
  BP_ASSIGN(const std::string text, read_whole(path, kMaxConfigBytes));
  return add_json(path, text, name + ".", metadata);
}

}  // namespace

uint32_t folder_confidence(const std::string& folder) {
  if (exists(in(folder, kIndexName)) || exists(in(folder, kWholeName))) return 90;
  const auto files = weight_files(folder);
  if (files.ok() && !files->empty()) return 80;
  const bool has_vocabulary =
      exists(in(folder, "tokenizer.json")) || exists(in(folder, "tokenizer.model"));
  return has_vocabulary ? 40 : 0;
}

Result<std::vector<Shard>> read_shards(const std::string& path, bool is_folder) {
  if (!is_folder) return one_shard(path);
  if (exists(in(path, kIndexName))) return indexed_shards(path);
  if (exists(in(path, kWholeName))) return one_shard(in(path, kWholeName));
  BP_ASSIGN(const auto files, weight_files(path));
  if (files.size() == 1) return one_shard(files[0]);
  if (files.empty() && folder_confidence(path) > 0) return std::vector<Shard>();
  return invalid(path, files.empty()
                           ? "a folder without .safetensors files and without a tokenizer"
                           : "several .safetensors files and no " + std::string(kIndexName));
}

Status read_side_files(const std::string& folder, const std::vector<Shard>& shards,
                       Metadata& metadata) {
  BP_TRY(add_file(folder, "config", metadata));
  BP_TRY(add_file(folder, "generation_config", metadata));
  for (const RawFile& file : kRawFiles) {
    const std::string path = in(folder, file.name);
    if (!exists(path)) continue;
    BP_ASSIGN(std::string bytes, read_whole(path, file.max_bytes));
    if (!metadata.add_string(file.key, std::move(bytes))) {
      return invalid(path, "too many keys before it");
    }
  }
  if (shards.empty()) return {};
  for (const auto& [key, value] : shards[0].notes) {
    if (!metadata.add_string("safetensors." + key, value)) {
      return invalid(shards[0].path, "too many keys in __metadata__");
    }
  }
  return {};
}

}  // namespace bp::safetensors
