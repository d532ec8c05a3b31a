#include "sdk/conformance/support/ops/op_spec.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <stdexcept>

#include "backplane/dtype.hpp"

namespace bp::conformance {

namespace {

std::string joined(const YAML::Node& items) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : ", ") + item.as<std::string>();
  return text;
}

std::vector<std::string> strings(const YAML::Node& items) {
  std::vector<std::string> result;
  for (const auto& item : items) result.push_back(item.as<std::string>());
  return result;
}

std::map<std::string, std::string> texts(const YAML::Node& map) {
  std::map<std::string, std::string> result;
  for (const auto& entry : map) {
    result[entry.first.as<std::string>()] = entry.second.as<std::string>();
  }
  return result;
}

std::vector<bp_dtype> dtypes(const YAML::Node& items) {
  std::vector<bp_dtype> result;
  for (const auto& item : items) result.push_back(dtype_from_name(item.as<std::string>()).value());
  if (result.empty()) result.push_back(BP_DTYPE_F32);
  return result;
}

std::vector<SpecSlot> slots(const YAML::Node& items) {
  std::vector<SpecSlot> result;
  for (const auto& item : items) {
    result.push_back({item["name"].as<std::string>(), joined(item["shape"]),
                      item["optional"].as<bool>(false), item["dtype"].as<std::string>(""),
                      item["since"].as<uint32_t>(1)});
  }
  return result;
}

std::vector<SpecAttribute> attributes(const YAML::Node& items) {
  std::vector<SpecAttribute> result;
  for (const auto& item : items) {
    result.push_back({item["name"].as<std::string>(), item["type"].as<std::string>(),
                      item["default"].as<std::string>(""), item["required"].as<bool>(false),
                      strings(item["values"]), item["since"].as<uint32_t>(1)});
  }
  return result;
}

std::vector<BodyEntry> body(const YAML::Node& items) {
  std::vector<BodyEntry> result;
  for (const auto& item : items) {
    result.push_back({item["op"].as<std::string>(), item["when"].as<std::string>("true"),
                      strings(item["in"]), strings(item["out"]), strings(item["weights"]),
                      texts(item["attributes"])});
  }
  return result;
}

OpCase op_case(const YAML::Node& item) {
  OpCase result;
  result.name = item["name"].as<std::string>();
  for (const auto& sequence : item["sequences"]) {
    result.sequences.push_back({sequence[0].as<uint32_t>(), sequence[1].as<uint32_t>()});
  }
  if (item["rows"]) result.sequences.push_back({0, item["rows"].as<uint32_t>()});
  for (const auto& size : item["sizes"]) {
    result.sizes[size.first.as<std::string>()] = size.second.as<uint64_t>();
  }
  result.attributes = texts(item["attributes"]);
  result.with = strings(item["with"]);
  result.dtypes = dtypes(item["dtypes"]);
  result.kv_dtypes = dtypes(item["kv_dtypes"]);
  result.selects = item["select"].IsDefined();
  for (const auto& row : item["select"]) result.select.push_back(row.as<uint32_t>());
  result.repeat = item["repeat"].as<uint64_t>(1);
  return result;
}

OpSpec load(const std::string& path) {
  const YAML::Node file = YAML::LoadFile(path);
  OpSpec spec;
  spec.name = file["name"].as<std::string>();
  spec.version = file["version"].as<uint32_t>();
  spec.summary = file["summary"].as<std::string>();
  spec.inputs = slots(file["inputs"]);
  spec.outputs = slots(file["outputs"]);
  spec.weights = slots(file["weights"]);
  spec.attributes = attributes(file["attributes"]);
  for (const auto& bound : file["bounds"]) {
    spec.bounds[bound.first.as<std::string>()] = {bound.second["rms"].as<double>(),
                                                  bound.second["max"].as<double>()};
  }
  spec.body = body(file["body"]);
  for (const auto& item : file["cases"]) spec.cases.push_back(op_case(item));
  return spec;
}

}  // namespace

ErrorBound OpSpec::bound(bp_dtype weights, bp_dtype kv) const {
  for (const std::string& key :
       {"kv_" + std::string(dtype_name(kv)), std::string(dtype_name(weights)),
        std::string(is_block_quantised(weights) ? "quantised" : "f32")}) {
    const auto it = bounds.find(key);
    if (it != bounds.end()) return it->second;
  }
  throw std::runtime_error("spec " + name + " has no bound");
}

std::vector<OpSpec> load_op_specs(const std::filesystem::path& folder) {
  std::vector<OpSpec> specs;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".yaml") specs.push_back(load(entry.path()));
  }
  std::sort(specs.begin(), specs.end(),
            [](const OpSpec& a, const OpSpec& b) { return a.name < b.name; });
  return specs;
}

}  // namespace bp::conformance
