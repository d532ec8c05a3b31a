#include <algorithm>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backplane/json_metadata.hpp"
#include "core/base/nearest.hpp"
#include "core/model/architecture.hpp"
#include "core/model/model_file.hpp"

namespace bp::model {

namespace {

namespace fs = std::filesystem;

// Metadata keys that name a model's architecture.
const std::map<std::string, std::vector<std::string>, std::less<>> kNameKeys = {
    {"gguf", {"general.architecture"}},
    {"huggingface", {"config.architectures", "config.model_type"}}};

Result<std::vector<std::string>> yaml_files(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path().string());
  }
  if (error) return io_error(fmt::format("{}: {}", folder, error.message()));
  std::sort(files.begin(), files.end());
  return files;
}

// The index of the first of `wanted` that is in `names`, or wanted.size().
size_t first_match(const std::vector<std::string>& wanted, const std::vector<std::string>& names) {
  const auto it = std::find_first_of(wanted.begin(), wanted.end(), names.begin(), names.end());
  return static_cast<size_t>(it - wanted.begin());
}

// Whether config.json has it, every one of which names its model_type.
bool has_section(const ModelFile& file, const std::string& name) {
  return !name.empty() && file.find_metadata("config." + name + ".model_type") != nullptr;
}

}  // namespace

Result<std::vector<std::string>> architecture_names(const ModelFile& file) {
  const auto keys = kNameKeys.find(file.dialect());
  if (keys == kNameKeys.end()) {
    return unsupported(fmt::format("{}: dialect '{}' is unknown (known: gguf, huggingface)",
                                   file.path(), file.dialect()));
  }
  std::vector<std::string> names;
  for (const std::string& key : keys->second) {
    const bp_metadata* entry = file.find_metadata(key);
    if (entry == nullptr) {
      const Status absent = check_absent(file.metadata(), key);
      if (!absent.ok()) return absent.with_context(file.path());
      continue;
    }
    if (entry->type != BP_META_STRING) {
      return invalid_argument(fmt::format("{}: {} must be a string", file.path(), key));
    }
    const auto* strings = static_cast<const bp_str*>(entry->data);
    for (uint64_t i = 0; i < std::min<uint64_t>(entry->n, 8); ++i) {
      names.emplace_back(metadata_detail::view(strings[i]));
    }
  }
  if (!names.empty()) return names;
  return invalid_argument(fmt::format("{}: names no architecture (tried: {})", file.path(),
                                      fmt::join(keys->second, ", ")));
}

// The classes that a Hugging Face file lists come before its model_type, so a name's place in
// `wanted` counts first, then the order of files.
Result<ArchitectureChoice> find_architecture(const ModelFile& file,
                                             const std::vector<std::string>& folders) {
  BP_ASSIGN(const auto wanted, architecture_names(file));
  std::vector<std::string> known;
  std::string best;  // its file
  size_t best_place = wanted.size();
  for (const std::string& folder : folders) {
    BP_ASSIGN(const auto files, yaml_files(folder));
    for (const std::string& path : files) {
      BP_ASSIGN(const DialectNames dialects, Architecture::names_of_file(path));
      const auto names = dialects.find(file.dialect());
      if (names == dialects.end()) continue;
      known.insert(known.end(), names->second.begin(), names->second.end());
      const size_t place = first_match(wanted, names->second);
      if (place >= best_place) continue;
      best_place = place;
      best = path;
    }
  }
  if (!best.empty()) {
    BP_ASSIGN(Architecture architecture, Architecture::load_file(best));
    if (has_section(file, architecture.text_section)) architecture.read_text_section();
    return ArchitectureChoice{std::move(architecture), wanted[best_place]};
  }
  return unsupported(fmt::format("{}: architecture '{}' is unknown{}", file.path(), wanted[0],
                                 base::nearest_hint(wanted[0], known)));
}

}  // namespace bp::model
