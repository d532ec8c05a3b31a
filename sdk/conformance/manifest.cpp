// Reads NAME.plugin.yaml as docs/plugins describes it; unknown keys are ignored.

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>

#include "sdk/conformance/subject.hpp"

namespace bp::conformance {

namespace {

namespace fs = std::filesystem;

std::string text_of(const YAML::Node& node, const char* key) {
  if (!node[key] || !node[key].IsScalar()) {
    throw YAML::Exception(node.Mark(), "the key '" + std::string(key) + "' is missing");
  }
  return node[key].Scalar();
}

std::vector<std::string> names_of(const YAML::Node& list) {
  std::vector<std::string> names;
  for (const auto& item : list) names.push_back(item.as<std::string>());
  return names;
}

uint32_t type_of(const YAML::Node& field) {
  static const std::map<std::string, uint32_t> types = {{"int", BP_TYPE_INT},
                                                        {"float", BP_TYPE_FLOAT},
                                                        {"string", BP_TYPE_STRING},
                                                        {"bool", BP_TYPE_BOOL}};
  const std::string name = text_of(field, "type");
  const auto found = types.find(name);
  if (found != types.end()) return found->second;
  throw YAML::Exception(field.Mark(), "type '" + name + "' is none of int, float, string, bool");
}

Manifest parse(const fs::path& path) {
  const YAML::Node root = YAML::LoadFile(path.string());
  if (!root.IsMap()) throw YAML::Exception(root.Mark(), "is no plugin manifest");
  if (text_of(root, "schema") != "1") throw YAML::Exception(root.Mark(), "schema must be 1");
  Manifest out;
  out.path = fs::absolute(path).lexically_normal();
  out.id = text_of(root, "id");
  out.version = text_of(root, "version");
  out.abi = text_of(root, "abi");
  out.kinds = names_of(root["kinds"]);
  if (out.kinds.empty()) throw YAML::Exception(root.Mark(), "the key 'kinds' is missing or empty");
  const std::string library = root["library"] ? text_of(root, "library") : out.id + ".so";
  out.library = out.path.parent_path() / library;
  for (const auto& entry : root["config"]) {
    ManifestParam param;
    param.key = entry.first.as<std::string>();
    param.type = type_of(entry.second);
    param.has_default = static_cast<bool>(entry.second["default"]);
    if (param.has_default) param.default_value = text_of(entry.second, "default");
    out.config.push_back(std::move(param));
  }
  for (const auto& stage : root["stages"]) out.stages.push_back(text_of(stage, "name"));
  return out;
}

}  // namespace

bool Manifest::has_kind(std::string_view kind) const {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

Result<Manifest> read_manifest(const fs::path& path) {
  try {
    return parse(path);
  } catch (const YAML::BadFile&) {
    return io_error(path.string() + ": cannot be read");
  } catch (const YAML::Exception& e) {
    return invalid_argument(path.string() + ": " + e.what());
  }
}

}  // namespace bp::conformance
