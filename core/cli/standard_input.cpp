#include "core/cli/standard_input.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/server/json_reader.hpp"

namespace bp::cli {

Result<std::string> read_standard_input() {
  constexpr size_t kChunk = 1 << 16, kLimit = 1u << 30;
  std::string text;
  while (text.size() <= kLimit) {
    const size_t before = text.size();
    text.resize(before + kChunk);
    const size_t n = std::fread(text.data() + before, 1, kChunk, stdin);
    text.resize(before + n);
    if (n == 0) {
      if (std::ferror(stdin) != 0) return io_error("standard input cannot be read");
      return text;
    }
  }
  return invalid_argument("standard input is larger than 1 GiB");
}

Result<nlohmann::ordered_json> read_standard_json() {
  BP_ASSIGN(const std::string text, read_standard_input());
  auto json = server::parse_json(text, {.n_values = SIZE_MAX});
  return json.ok() ? std::move(json) : json.status().with_context("standard input");
}

}  // namespace bp::cli
