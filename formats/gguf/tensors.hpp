#pragma once
// The tensor table of a file.

#include <cstdint>
#include <vector>

#include "backplane/format.h"
#include "formats/gguf/cursor.hpp"

namespace bp::gguf {

struct TensorInfo {
  bp_tensor tensor;      // offset is absolute in the file once placed
  uint64_t info_offset;  // of its entry in the file, for messages
};

// Reads n_tensors entries at the cursor; offsets stay relative to the start of the tensor data.
// Names point into the cursor's bytes.
Result<std::vector<TensorInfo>> read_tensor_infos(Cursor& cursor, uint64_t n_tensors);

// Makes offsets absolute and checks that each is aligned and that all lie within the file without
// overlap.
Status place_tensors(const Cursor& cursor, uint64_t data_start, uint64_t alignment,
                     uint64_t file_bytes, std::vector<TensorInfo>& infos);

}  // namespace bp::gguf
