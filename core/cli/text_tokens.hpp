#pragma once
// The tokens of a text file, for commands that run a model over one.

#include <cstdint>
#include <string>
#include <vector>

#include "backplane/status.hpp"
#include "core/text/vocabulary.hpp"

namespace bp::cli {

struct TextTokens {
  std::vector<int32_t> tokens;
  int32_t bos = text::kNoToken;  // in the first place of each window, or kNoToken
};

Result<TextTokens> tokens_of_file(const std::string& model, const std::string& file);

}  // namespace bp::cli
