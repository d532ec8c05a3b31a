#pragma once
// What architecture files declare by name: hyper-parameters, weights, rotary embeddings, vectors
// and slots of the cache, each parsed from its member of the file. Errors name the place.

#include <string>

#include "core/model/architecture.hpp"

namespace bp::model {

Result<ParameterSpec> parse_parameter(const std::string& name, const base::Yaml& node);
Result<WeightSpec> parse_weight(const std::string& name, const base::Yaml& node);
Result<RopeSpec> parse_rope(const std::string& name, const base::Yaml& node);
Result<VectorSpec> parse_vector(const std::string& name, const base::Yaml& node);
Result<KvSlotSpec> parse_kv_slot(const std::string& name, const base::Yaml& node);
Result<StateSlotSpec> parse_state_slot(const std::string& name, const base::Yaml& node);

// Members of `node` that are named like a dialect.
Result<DialectNames> dialect_names(const base::Yaml& node);

Result<std::string> text_or(const base::Yaml& node, const std::string& key,
                            const std::string& fallback);

}  // namespace bp::model
