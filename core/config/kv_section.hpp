#pragma once
// `kv` of a backend: the types, memory and blocks of the cache.

#include <cstdint>
#include <string>

#include "core/base/yaml.hpp"
#include "core/config/config.hpp"

namespace bp::config {

[[nodiscard]] bool is_auto(const base::Yaml& node);

// An integer key from 1 to max that may also be `auto`, which leaves `out` as it is.
Status read_count(const base::Yaml& yaml, const std::string& key, int64_t max, uint32_t& out);

Status read_kv(const base::Yaml& section, Backend& backend);

// The types of the cache from a command line: "q8_0", or keys and values apart, "q8_0,f16".
Status set_kv_types(const std::string& types, Backend& backend);

}  // namespace bp::config
