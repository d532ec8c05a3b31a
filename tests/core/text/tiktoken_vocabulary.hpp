#pragma once
// A byte-level BPE vocabulary from a rank file: lines of a token in base64 and its rank.

#include <filesystem>

#include "core/text/vocabulary.hpp"

namespace bp::text::testing {

Vocabulary read_tiktoken(const std::filesystem::path& path, std::string pre);

}  // namespace bp::text::testing
