#include "core/cli/standard_input.hpp"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/base/json_tree.hpp"
#include "core/base/read_file.hpp"

namespace bp::cli {

Result<std::string> read_standard_input() {
  return base::read_open_file(STDIN_FILENO, "standard input", kMaxInputBytes);
}

Result<nlohmann::ordered_json> read_standard_json() {
  BP_ASSIGN(const std::string text, read_standard_input());
  auto json = base::parse_json<nlohmann::ordered_json>(text, {.n_values = SIZE_MAX});
  return json.ok() ? std::move(json) : json.status().with_context("standard input");
}

}  // namespace bp::cli
