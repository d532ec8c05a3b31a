#pragma once
// The tensors of one file that torch.save wrote.

#include <cstdint>
#include <string>
#include <vector>

#include "backplane/dtype.h"
#include "backplane/status.hpp"
#include "formats/pytorch/file_bytes.hpp"

namespace bp::pytorch {

struct TensorEntry {
  std::string name;
  bp_dtype dtype = BP_DTYPE_NONE;
  std::vector<uint64_t> dims;     // outermost first; none: a single value
  std::vector<uint64_t> strides;  // in elements, as many as dims
  uint64_t offset = 0;            // of its first element in the file
  uint64_t n_elements = 0;

  // Elements follow each other in the order of the dims.
  [[nodiscard]] bool is_contiguous() const;
};

struct StateDict {
  std::string path;
  std::vector<TensorEntry> tensors;  // by name, each once; elements lie within the file
};

// Reads and checks all but the tensors' values.
Result<StateDict> read_state_dict(const FileBytes& file);

}  // namespace bp::pytorch
