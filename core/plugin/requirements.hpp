#pragma once
// Whether this machine has what a manifest asks for, without loading the plugin.

#include <string>

#include "core/plugin/manifest.hpp"

namespace bp::plugin {

// Empty when the plugin can run here, else a sentence that says what is missing.
std::string why_unusable(const Manifest& manifest);

}  // namespace bp::plugin
