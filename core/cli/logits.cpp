// backplane logits: the logits behind the last of some tokens, straight from the executable.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/cli/commands.hpp"
#include "core/cli/single_sequence.hpp"

namespace bp::cli {

Status logits(const LogitsOptions& options) {
  BP_ASSIGN(SingleSequence sequence,
            SingleSequence::create(options.model, static_cast<uint32_t>(options.tokens.size()), 1));
  BP_TRY(sequence.check(options.tokens));
  std::vector<float> row(sequence.n_vocab());
  BP_TRY(sequence.append(options.tokens, 0, 1, row.data()));
  fmt::print("{{\"n_vocab\":{},\"logits\":[{:.9g}]}}\n", row.size(), fmt::join(row, ","));
  return {};
}

}  // namespace bp::cli
