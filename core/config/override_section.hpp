#pragma once
// `override` of a backend: other plugins' kernels for single ops.

#include <string>
#include <vector>

#include "core/base/yaml.hpp"
#include "core/config/config.hpp"
#include "core/plugin/manifest.hpp"

namespace bp::config {

// {OP: PLUGIN} or {OP: {plugin: PLUGIN, its keys}}; `base` is the backend that is to run them.
Result<std::vector<Override>> read_overrides(const base::Yaml& section,
                                             const plugin::Manifest& base,
                                             const plugin::Catalog& catalog);

}  // namespace bp::config
