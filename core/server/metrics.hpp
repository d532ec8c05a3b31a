#pragma once
// What Prometheus scrapes: the state of all models, read without any lock of an engine.

#include <string>
#include <vector>

#include "core/server/model_table.hpp"

namespace bp::server {

// In the text format 0.0.4. Models that still load are left out.
std::string metrics_text(const std::vector<ModelEntry>& models);

}  // namespace bp::server
