#include "formats/huggingface/folder.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "backplane/text.hpp"
#include "formats/huggingface/files.hpp"
#include "formats/huggingface/limits.hpp"

namespace bp::huggingface {

namespace {

namespace fs = std::filesystem;

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

std::string in(const std::string& folder, std::string_view name) {
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

Result<WeightFiles> one_file(const std::string& path, const WeightNames& names) {
  if (!is_one_of_several(path)) return WeightFiles{{path}, {}};
  return invalid(path, "one part of several: open the folder, whose " + std::string(names.index) +
                           " lists them all");
}

Result<WeightFiles> indexed_files(const std::string& folder, const WeightNames& names) {
  WeightFiles found;
  BP_ASSIGN(found.index, read_index(in(folder, names.index), names.extensions[0]));
  for (const std::string& shard : found.index->shards) found.paths.push_back(in(folder, shard));
  return found;
}

// The publishers' own forms have other names for everything, and no file that says which.
Status check_form(const std::string& folder) {
  if (exists(in(folder, "config.json")) || !exists(in(folder, "params.json"))) return {};
  return unsupported(shortened_path(folder) +
                     ": holds params.json and no config.json, so the weights are in the "
                     "publisher's own form (Mistral, Meta); what is read is the form of the hub: "
                     "config.json, tokenizer.json and model*.safetensors");
}

Status add_file(const std::string& folder, const std::string& name, Metadata& metadata) {
  const std::string path = in(folder, name + ".json");
  if (!exists(path)) return {};
  BP_ASSIGN(const std::string text, read_whole(path, kMaxConfigBytes));
  return add_json(path, text, name + ".", metadata);
}

}  // namespace

bool has_usual_weights(const std::string& folder, const WeightNames& names) {
  return exists(in(folder, names.index)) || exists(in(folder, names.whole));
}

bool has_vocabulary(const std::string& folder) {
  return exists(in(folder, "tokenizer.json")) || exists(in(folder, "tokenizer.model"));
}

Result<std::vector<std::string>> files_with(const std::string& folder, const WeightNames& names) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string extension = entry->path().extension().string();
    if (std::ranges::count(names.extensions, extension) > 0) paths.push_back(entry->path());
    if (paths.size() > kMaxShards) {
      return invalid(folder, "too many " + std::string(names.extensions[0]) + " files");
    }
  }
  if (error) return io_error(shortened_path(folder) + ": " + error.message());
  std::sort(paths.begin(), paths.end());
  return paths;
}

Result<WeightFiles> find_weights(const std::string& path, bool is_folder,
                                 const WeightNames& names) {
  if (!is_folder) return one_file(path, names);
  if (exists(in(path, names.index))) return indexed_files(path, names);
  if (exists(in(path, names.whole))) return one_file(in(path, names.whole), names);
  BP_ASSIGN(const auto files, files_with(path, names));
  if (files.size() == 1) return one_file(files[0], names);
  if (files.empty() && has_vocabulary(path)) return WeightFiles{};
  const std::string extension(names.extensions[0]);
  return invalid(path, files.empty()
                           ? "a folder without " + extension + " files and without a tokenizer"
                           : "several " + extension + " files and no " + std::string(names.index));
}

Status read_side_files(const std::string& folder, Metadata& metadata) {
  BP_TRY(check_form(folder));
  BP_TRY(add_file(folder, "config", metadata));
  BP_TRY(add_file(folder, "generation_config", metadata));
  if (!metadata.list_others()) return invalid(folder, "too many keys in its configuration");
  for (const RawFile& file : kRawFiles) {
    const std::string path = in(folder, file.name);
    if (!exists(path)) continue;
    BP_ASSIGN(std::string bytes, read_whole(path, file.max_bytes));
    if (!metadata.add_string(file.key, std::move(bytes))) {
      return invalid(path, "too many keys before it");
    }
  }
  return {};
}

}  // namespace bp::huggingface
