#pragma once
// All sampler stages that a model can use, and the request fields they read.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backplane/status.hpp"
#include "core/plugin/manifest.hpp"
#include "core/plugin/params.hpp"
#include "core/plugin/sampler.hpp"

namespace bp::engine {

struct SamplerPlugin {
  std::string id;
  std::shared_ptr<const plugin::SamplerHandle> handle;
  std::vector<plugin::StageManifest> stages;  // of its manifest
};

struct StageRef {
  const SamplerPlugin* plugin;
  const plugin::StageManifest* manifest;
  uint32_t stage;  // the plugin's index
};

struct SamplerSet {
  std::vector<SamplerPlugin> plugins;
  std::vector<std::string> chain;  // where a request names none
  plugin::ParamMap defaults;       // request fields, over those of the manifests

  // "stage", or "plugin/stage" where several plugins have one of that name.
  [[nodiscard]] Result<StageRef> find(const std::string& name) const;
  [[nodiscard]] Result<std::vector<StageRef>> resolve(std::span<const std::string> names) const;
  // The fields of one stage: the request's, else the defaults, else the manifest's.
  [[nodiscard]] Result<plugin::ParamMap> fields(const StageRef& stage,
                                                const plugin::ParamMap& request) const;
  // Every field of the request must be read by a stage of the chain, or be neutral: equal to the
  // default of the stage that would read it.
  [[nodiscard]] Status check_all_read(const plugin::ParamMap& request,
                                      std::span<const StageRef> chain) const;
};

}  // namespace bp::engine
