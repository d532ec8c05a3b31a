#pragma once
// The key-value section of a file.

#include <cstdint>
#include <memory_resource>
#include <string_view>
#include <vector>

#include "backplane/format.h"
#include "formats/gguf/cursor.hpp"

namespace bp::gguf {

// Reads n_key_values entries at the cursor. Keys and strings point into the cursor's bytes, other
// values into the arena. Keys are UTF-8 and unique; string values are bytes: vocabularies of real
// models hold tokens that are parts of characters.
Result<std::vector<bp_metadata>> read_metadata(Cursor& cursor, uint64_t n_key_values,
                                               std::pmr::memory_resource& arena);

// nullptr when absent.
[[nodiscard]] const bp_metadata* find_metadata(const std::vector<bp_metadata>& metadata,
                                               std::string_view key);

}  // namespace bp::gguf
