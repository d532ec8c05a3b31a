#pragma once
// One entry of `models`.

#include <string>

#include "core/base/yaml.hpp"
#include "core/config/config.hpp"

namespace bp::config {

// `folder`: what relative paths are relative to.
Result<Model> read_model(const base::Yaml& yaml, const std::string& folder,
                         const plugin::Catalog& catalog);

}  // namespace bp::config
