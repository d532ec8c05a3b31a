#pragma once
// The hyper-parameters of a model as metadata of a GGUF file.

#include "core/convert/metadata_table.hpp"
#include "core/model/parameters.hpp"

namespace bp::convert {

// general.architecture, and under their keys all that `scope` holds and GGUF has a key for.
Status put_parameters(const model::Architecture& architecture, model::ModelScope& scope,
                      MetadataTable& metadata);

// What the program of a model depends on, read again from what was written, must be what it was;
// the error names what GGUF has no place for.
Status compare_parameters(const model::Architecture& architecture, model::ModelScope& source,
                          const model::ModelScope& written);

// The names of norms' weights that have a number added to them when they are used, by the number's
// expression.
std::map<std::string, model::PlacedExpression> norm_offsets(
    const model::Architecture& architecture);

}  // namespace bp::convert
