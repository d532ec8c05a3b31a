#include "core/cli/output_file.hpp"

#include <filesystem>
#include <system_error>

#include "backplane/plugin.hpp"
#include "core/convert/unfinished_file.hpp"

namespace bp::cli {

Status expect_output(const std::string& output, const model::ModelFile& model,
                     const std::string& input) {
  std::error_code ignored;
  const bool is_input = !input.empty() && std::filesystem::equivalent(output, input, ignored);
  if (is_input || model.maps(output)) {
    return invalid_argument(output + " is what is read; give another name for what is written");
  }
  return convert::expect_file_place(output);
}

}  // namespace bp::cli
