// backplane imatrix: which columns of a model's weights count, measured on a text.

#include <algorithm>
#include <filesystem>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "backplane/ext/threads.h"
#include "core/cli/commands.hpp"
#include "core/cli/progress.hpp"
#include "core/cli/single_sequence.hpp"
#include "core/cli/text_tokens.hpp"
#include "core/convert/importance.hpp"
#include "core/convert/observer.hpp"
#include "core/plugin/host.hpp"

namespace bp::cli {

namespace {

constexpr uint32_t kRows = 64;  // tokens run at once

// What outlives the backend that observes.
struct Observation {
  convert::InputObserver observer;
  plugin::HostServices host;

  Result<plugin::BackendHandle> make_backend(runtime::Runtime& runtime) {
    host.offer(BP_THREADS_ID, runtime.threads());
    host.offer(convert::InputObserver::kId, &observer);
    return plugin::BackendHandle::create(convert::observing_backend(), host.get(), {});
  }
};

Status check_names(const SingleSequence& sequence) {
  const model::ModelFile& file = *sequence.model().file;
  if (file.dialect() == "gguf") return {};
  return unsupported(file.path() +
                     ": an importance matrix is for GGUF files, by the names of their tensors; "
                     "convert the model to GGUF first");
}

// Rows of logits are asked for, since a model may drop the others before its end.
Status run_window(std::span<const int32_t> window, SingleSequence& sequence,
                  std::vector<float>& logits) {
  for (size_t done = 0; done < window.size(); done += kRows) {
    const auto piece = window.subspan(done, std::min<size_t>(kRows, window.size() - done));
    BP_TRY(sequence.append(piece, static_cast<uint32_t>(done), static_cast<uint32_t>(piece.size()),
                           logits.data()));
  }
  return {};
}

Status run_windows(const ImatrixOptions& options, const TextTokens& text, uint32_t n_windows,
                   SingleSequence& sequence) {
  ProgressBar progress("imatrix");
  std::vector<float> logits(size_t{kRows} * sequence.n_vocab());
  for (uint32_t i = 0; i < n_windows; ++i) {
    progress.c()->report(progress.c()->user, i, n_windows);
    const auto first = text.tokens.begin() + static_cast<ptrdiff_t>(i) * options.context;
    std::vector<int32_t> window(first, first + options.context);
    if (text.bos != text::kNoToken) window[0] = text.bos;
    BP_TRY(run_window(window, sequence, logits));
  }
  return {};
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
  Observation observation;
  ModelOptions model;
  model.model = options.model;
  model.backend = "reference";
  model.n_threads = options.n_threads;
  BP_ASSIGN(SingleSequence sequence,
            SingleSequence::create(model, options.context, kRows, [&](runtime::Runtime& runtime) {
              return observation.make_backend(runtime);
            }));
  BP_TRY(check_names(sequence));
  BP_TRY(sequence.check(text.tokens));
  BP_TRY(run_windows(options, text, n_windows, sequence));
  convert::ImportanceMatrix matrix;
  matrix.datasets = {std::filesystem::path(options.file).filename().string()};
  matrix.n_chunks = n_windows;
  matrix.chunk_size = options.context;
  matrix.by_weight = observation.observer.squares();
  BP_TRY(convert::write_importance(matrix, options.output));
  fmt::print("{}: {} weights over {} windows of {} tokens\n", options.output,
             matrix.by_weight.size(), n_windows, options.context);
  return {};
}

}  // namespace bp::cli
