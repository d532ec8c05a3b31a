#pragma once
// One GGUF file: its header read and checked.

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <vector>

#include "backplane/format.h"
#include "formats/gguf/header_bytes.hpp"
#include "formats/gguf/tensors.hpp"

namespace bp::gguf {

struct Part {
  HeaderBytes bytes;                                            // holds names, keys and strings
  std::unique_ptr<std::pmr::monotonic_buffer_resource> values;  // holds other metadata values
  std::vector<bp_metadata> metadata;
  std::vector<TensorInfo> tensors;
};

// Checks everything that concerns this file alone.
Result<Part> read_part(HeaderBytes bytes);

}  // namespace bp::gguf
