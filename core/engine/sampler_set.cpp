#include "core/engine/sampler_set.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/nearest.hpp"

namespace bp::engine {

namespace {

const plugin::FieldSpec* find_field(const plugin::StageManifest& stage, const std::string& name) {
  const auto it = std::ranges::find(stage.fields, name, &plugin::FieldSpec::name);
  return it == stage.fields.end() ? nullptr : &*it;
}

Result<plugin::ParamValue> field_value(const plugin::FieldSpec& spec,
                                       const plugin::ParamMap& defaults,
                                       const plugin::ParamMap& request) {
  for (const plugin::ParamMap* map : {&request, &defaults}) {
    const auto it = map->find(spec.name);
    if (it == map->end()) continue;
    auto checked = plugin::check_field(spec, it->second);
    if (!checked.ok()) return checked.status().with_context(spec.name);
    return checked;
  }
  if (spec.fallback) return *spec.fallback;
  return invalid_argument(fmt::format("{}: the sampler stage needs a value", spec.name));
}

}  // namespace

Result<StageRef> SamplerSet::find(const std::string& name) const {
  const auto slash = name.find('/');
  const std::string stage_name = slash == std::string::npos ? name : name.substr(slash + 1);
  std::vector<StageRef> found;
  std::vector<std::string> known;
  for (const SamplerPlugin& plugin : plugins) {
    for (const plugin::StageManifest& stage : plugin.stages) {
      known.push_back(stage.name);
      if (stage.name != stage_name) continue;
      if (slash != std::string::npos && plugin.id != name.substr(0, slash)) continue;
      const auto index = plugin.handle->find_stage(stage_name);
      if (index) found.push_back({&plugin, &stage, *index});
    }
  }
  if (found.size() == 1) return found[0];
  if (found.empty()) {
    return invalid_argument(fmt::format("there is no sampler stage '{}'{}", name,
                                        base::nearest_hint(stage_name, known)));
  }
  return invalid_argument(fmt::format("sampler stage '{0}' is ambiguous; write {1}/{0} or {2}/{0}",
                                      name, found[0].plugin->id, found[1].plugin->id));
}

Result<std::vector<StageRef>> SamplerSet::resolve(std::span<const std::string> names) const {
  std::vector<StageRef> stages;
  for (const std::string& name : names) {
    BP_ASSIGN(const StageRef stage, find(name));
    const auto is_same = [&](const StageRef& other) { return other.manifest == stage.manifest; };
    if (std::ranges::any_of(stages, is_same)) {
      return invalid_argument(fmt::format("sampler stage '{}' is named twice", name));
    }
    stages.push_back(stage);
  }
  return stages;
}

Result<plugin::ParamMap> SamplerSet::fields(const StageRef& stage,
                                            const plugin::ParamMap& request) const {
  plugin::ParamMap values;
  for (const plugin::FieldSpec& spec : stage.manifest->fields) {
    BP_ASSIGN(plugin::ParamValue value, field_value(spec, defaults, request));
    values.emplace(spec.name, std::move(value));
  }
  return values;
}

Status SamplerSet::check_all_read(const plugin::ParamMap& request,
                                  std::span<const StageRef> chain) const {
  for (const auto& [name, value] : request) {
    const auto reads = [&name = name](const StageRef& stage) {
      return find_field(*stage.manifest, name) != nullptr;
    };
    if (std::ranges::any_of(chain, reads)) continue;
    const plugin::FieldSpec* spec = nullptr;
    std::string reader;
    for (const SamplerPlugin& plugin : plugins) {
      for (const plugin::StageManifest& stage : plugin.stages) {
        if (spec != nullptr || (spec = find_field(stage, name)) == nullptr) continue;
        reader = stage.name;
      }
    }
    if (spec == nullptr) {
      return invalid_argument(fmt::format("{}: no sampler stage reads this field", name));
    }
    auto checked = plugin::check_field(*spec, value);
    if (!checked.ok()) return checked.status().with_context(name);
    if (spec->fallback && *checked == *spec->fallback) continue;
    return invalid_argument(
        fmt::format("{}: the stage that reads it, '{}', is not in the chain", name, reader));
  }
  return {};
}

}  // namespace bp::engine
