#pragma once
// Models in several files, NAME-00001-of-00003.gguf and so on.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf/part.hpp"

namespace bp::gguf {

struct SplitName {
  std::string prefix;  // path up to "-00001-of-..."
  uint32_t index;      // from 0
  uint32_t count;
};

[[nodiscard]] std::optional<SplitName> parse_split_name(std::string_view path);
[[nodiscard]] std::string split_path(const SplitName& name, uint32_t index);

// The number of files of the model that `first` begins: 1 when it is not split. An error when it is
// a later part or its name and metadata disagree.
Result<uint32_t> count_parts(const Part& first);

// Reads all further parts. Their names are derived from the first one's; counts agree, and tensor
// names are unique across parts.
Result<std::vector<Part>> read_all_parts(Part first);

}  // namespace bp::gguf
