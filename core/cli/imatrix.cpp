// backplane imatrix: which columns of a model's weights count, measured on a text.

#include <algorithm>
#include <filesystem>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "core/cli/commands.hpp"
#include "core/cli/output_file.hpp"
#include "core/cli/progress.hpp"
#include "core/cli/single_sequence.hpp"
#include "core/cli/text_tokens.hpp"
#include "core/convert/gguf_names.hpp"
#include "core/convert/importance.hpp"
#include "core/convert/product_inputs.hpp"
#include "core/convert/unfinished_file.hpp"
#include "core/model/inline_body.hpp"

namespace bp::cli {

namespace {

// Of all that goes into the products of one step; the backend and this program hold it.
constexpr uint64_t kStepBytes = uint64_t{256} << 20;
constexpr uint32_t kLeastStepTokens = 64;

uint32_t tokens_of_step(const model::Program& program) {
  uint64_t row_bytes = 1;
  const bp_program& c = program.c();
  for (uint32_t i = 0; i < c.n_outputs; ++i) {
    row_bytes += c.values[c.outputs[i]].width * sizeof(float);
  }
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(kStepBytes / row_bytes / kLeastStepTokens * kLeastStepTokens,
                           kLeastStepTokens, SingleSequence::kMaxStepTokens));
}

// Replaces a model's program by one that gives what goes into its products.
Result<uint32_t> observe(model::LoadedModel& model, std::vector<convert::ProductInput>& inputs) {
  BP_ASSIGN(const auto bodies, model::OpBodies::load(model::default_resource_folders().ops));
  BP_ASSIGN(auto observed, convert::observe_products(model.program, bodies));
  model.program = std::move(observed.program);
  inputs = std::move(observed.inputs);
  return tokens_of_step(model.program);
}

Status run_window(std::span<const int32_t> window, SingleSequence& sequence,
                  convert::ProductSums& sums) {
  const uint32_t n_step = sequence.max_step_tokens();
  std::vector<std::vector<float>> outputs;
  for (size_t done = 0; done < window.size(); done += n_step) {
    const auto piece = window.subspan(done, std::min<size_t>(n_step, window.size() - done));
    BP_TRY(sequence.append_all(piece, static_cast<uint32_t>(done), outputs));
    sums.add(outputs, static_cast<uint32_t>(piece.size()), sequence.threads());
  }
  return {};
}

Status run_windows(const ImatrixOptions& options, const TextTokens& text, uint32_t n_windows,
                   SingleSequence& sequence, convert::ProductSums& sums) {
  ProgressBar progress("imatrix");
  for (uint32_t i = 0; i < n_windows; ++i) {
    progress.c()->report(progress.c()->user, i, n_windows);
    const auto first = text.tokens.begin() + static_cast<ptrdiff_t>(i) * options.context;
    std::vector<int32_t> window(first, first + options.context);
    if (text.bos != text::kNoToken) window[0] = text.bos;
    BP_TRY(run_window(window, sequence, sums));
  }
  return {};
}

// By the names that the weights have in GGUF files.
Result<std::map<std::string, convert::InputSquares>> in_gguf_names(
    const model::LoadedModel& model, std::map<std::string, convert::InputSquares> squares) {
  if (model.file->dialect() == "gguf") return squares;
  BP_ASSIGN(const auto choice,
            model::find_architecture(*model.file, model::default_resource_folders().architectures));
  std::map<std::string, convert::InputSquares> out;
  for (const auto& weight : convert::gguf_names(*model.file, choice.architecture, model.n_layers)) {
    const auto found = squares.find(weight.source);
    if (found != squares.end()) out[weight.gguf] = found->second;
  }
  return out;
}

}  // namespace

Status imatrix(const ImatrixOptions& options) {
  BP_ASSIGN(const TextTokens text, tokens_of_file(options.model, options.file));
  const size_t n_whole = text.tokens.size() / options.context;
  if (n_whole == 0) {
    return invalid_argument(
        fmt::format("{} has {} tokens, fewer than the {} of one window; give a longer text or a "
                    "smaller --context",
                    options.file, text.tokens.size(), options.context));
  }
  const auto n_windows = static_cast<uint32_t>(
      options.n_chunks == 0 ? n_whole : std::min<size_t>(options.n_chunks, n_whole));
  ModelOptions model;
  model.model = options.model;
  model.backend = options.backend;
  model.n_threads = options.n_threads;
  std::vector<convert::ProductInput> inputs;
  BP_ASSIGN(
      SingleSequence sequence,
      SingleSequence::create(model, options.context, SingleSequence::kMaxStepTokens,
                             [&](model::LoadedModel& loaded) { return observe(loaded, inputs); }));
  BP_TRY(sequence.check(text.tokens));
  BP_TRY(expect_output(options.output, *sequence.model().file, options.file));
  convert::ProductSums sums(std::move(inputs));
  BP_TRY(run_windows(options, text, n_windows, sequence, sums));
  convert::ImportanceMatrix matrix;
  matrix.datasets = {std::filesystem::path(options.file).filename().string()};
  matrix.n_chunks = n_windows;
  matrix.chunk_size = options.context;
  BP_ASSIGN(matrix.by_weight, in_gguf_names(sequence.model(), sums.squares()));
  convert::remove_unfinished_on_signals();
  BP_TRY(convert::write_importance(matrix, options.output));
  fmt::print("{}: {} weights over {} windows of {} tokens\n", options.output,
             matrix.by_weight.size(), n_windows, options.context);
  return {};
}

}  // namespace bp::cli
