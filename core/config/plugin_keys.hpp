#pragma once
// A plugin's own keys in a section of the configuration, checked against its manifest.

#include <string>
#include <vector>

#include "backplane/status.hpp"
#include "core/base/yaml.hpp"
#include "core/plugin/manifest.hpp"

namespace bp::config {

// Reads every field that `section` gives, nested maps for dotted names, and fills in the defaults
// of the rest. `core_keys` are skipped. Unknown keys are errors.
Result<plugin::ParamMap> read_plugin_keys(const base::Yaml& section,
                                          const std::vector<std::string>& core_keys,
                                          const std::vector<plugin::FieldSpec>& fields);

// Fields that a section may leave out entirely, with their defaults; an error where one has none.
Result<plugin::ParamMap> default_keys(const std::vector<plugin::FieldSpec>& fields);

// One scalar as the field's type, range and values ask.
Result<plugin::ParamValue> read_field_value(const base::Yaml& node, const plugin::FieldSpec& field);

}  // namespace bp::config
