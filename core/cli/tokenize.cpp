// backplane tokenize: standard input to a JSON array of ids, or back.

#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/cli/commands.hpp"
#include "core/cli/standard_input.hpp"
#include "core/runtime/launch.hpp"
#include "core/text/tokenizer.hpp"

namespace bp::cli {

namespace {

Result<std::vector<int32_t>> read_ids() {
  BP_ASSIGN(const nlohmann::ordered_json json, read_standard_json());
  if (!json.is_array()) return invalid_argument("standard input is no JSON array of token ids");
  std::vector<int32_t> ids;
  for (const auto& item : json) {
    const bool fits = item.is_number_integer() && item >= 0 && item <= INT32_MAX;
    if (!fits) return invalid_argument(fmt::format("{} is no token id", item.dump()));
    ids.push_back(item.get<int32_t>());
  }
  return ids;
}

Status decode(const text::Tokenizer& tokenizer) {
  BP_ASSIGN(const std::vector<int32_t> ids, read_ids());
  for (const int32_t id : ids) {
    if (!tokenizer.vocabulary().contains(id)) {
      return invalid_argument(fmt::format("token id {} is outside the vocabulary of {}", id,
                                          tokenizer.vocabulary().n_tokens()));
    }
  }
  const std::string text = tokenizer.decode(ids, {.special = true});
  std::fwrite(text.data(), 1, text.size(), stdout);
  return {};
}

}  // namespace

Status tokenize(const TokenizeOptions& options) {
  BP_ASSIGN(const auto runtime, runtime::default_runtime(1));
  BP_ASSIGN(const auto file, runtime->open_model(options.model, "auto"));
  BP_ASSIGN(const auto tokenizer, runtime::make_tokenizer(*file));
  if (options.decode) return decode(*tokenizer);
  BP_ASSIGN(const std::string input, read_standard_input());
  const auto ids = tokenizer->encode(
      input, {.add_special = !options.no_special, .parse_special = !options.plain});
  fmt::print("[{}]\n", fmt::join(ids, ","));
  return {};
}

}  // namespace bp::cli
