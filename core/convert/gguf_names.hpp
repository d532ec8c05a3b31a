#pragma once
// The names that a model's weights have in its own files and in GGUF's.

#include <cstdint>
#include <string>
#include <vector>

#include "core/model/architecture.hpp"
#include "core/model/model_file.hpp"

namespace bp::convert {

struct NamedWeight {
  const model::WeightSpec* spec;
  const model::TensorSource* found;  // null: none
  int64_t layer;                     // -1: of the model
  std::string source;  // its name, with {n} where several tensors are stacked; empty: none
  std::string gguf;
};

// The weights that have a name in GGUF files and a tensor in this one, or values or another weight
// that they are made of; those of the model first, then layer by layer.
std::vector<NamedWeight> gguf_names(const model::ModelFile& file,
                                    const model::Architecture& architecture, int64_t n_layers);

}  // namespace bp::convert
