#pragma once
// A model file and its architecture to a program of composite ops.

#include <string>
#include <vector>

#include "core/model/parameters.hpp"
#include "core/model/program.hpp"
#include "core/model/tensors.hpp"

namespace bp::model {

struct Lowered {
  Program program;         // its weights point into the model file
  NamedValues parameters;  // hyper-parameters
  std::vector<std::string> unused_tensors;
};

// `file` outlives the program. `context`: tokens that sequences may have, 0 for the model's own.
// progress may be null.
Result<Lowered> lower(ModelFile& file, const ArchitectureChoice& choice, uint32_t context,
                      const QuantizeAtLoad& quantize, const bp_progress* progress);

}  // namespace bp::model
