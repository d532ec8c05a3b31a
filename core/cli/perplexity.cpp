// backplane perplexity: how well a model foretells a text.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include <fmt/format.h>

#include "core/cli/commands.hpp"
#include "core/cli/progress.hpp"
#include "core/cli/single_sequence.hpp"
#include "core/cli/text_tokens.hpp"

namespace bp::cli {

namespace {

constexpr uint32_t kRows = 64;  // logits computed at once

// Of the negative logarithms of the probabilities that the model gave to the text's tokens.
class Scores {
 public:
  void add(const float* logits, size_t n_vocab, int32_t token) {
    const float largest = *std::max_element(logits, logits + n_vocab);
    double sum = 0;
    for (size_t i = 0; i < n_vocab; ++i) sum += std::exp(logits[i] - largest);
    const double score = std::log(sum) + largest - logits[token];
    ++n_;
    const double difference = score - mean_;  // Welford
    mean_ += difference / static_cast<double>(n_);
    squares_ += difference * (score - mean_);
  }
  [[nodiscard]] uint64_t n() const { return n_; }
  [[nodiscard]] double perplexity() const { return std::exp(mean_); }
  // Of the perplexity, as if tokens were independent. One token tells nothing of it.
  [[nodiscard]] std::optional<double> standard_error() const {
    if (n_ < 2) return std::nullopt;
    const auto n = static_cast<double>(n_);
    return perplexity() * std::sqrt(squares_ / (n - 1) / n);
  }

 private:
  uint64_t n_ = 0;
  double mean_ = 0;
  double squares_ = 0;
};

// Scores tokens [first, end) of a window, each from those before it.
Status score(SingleSequence& sequence, std::span<const int32_t> window, uint32_t first,
             Scores& scores) {
  const size_t n_vocab = sequence.n_vocab();
  std::vector<float> logits(kRows * n_vocab);
  const auto end = static_cast<uint32_t>(window.size());
  uint32_t done = 0;  // tokens computed
  for (uint32_t next = first; next < end; next += kRows) {
    const uint32_t n_rows = std::min(kRows, end - next);
    const uint32_t computed = next + n_rows - 1;  // the last token's own logits are of no use
    BP_TRY(sequence.append(window.subspan(done, computed - done), done, n_rows, logits.data()));
    done = computed;
    for (uint32_t i = 0; i < n_rows; ++i) {
      scores.add(logits.data() + i * n_vocab, n_vocab, window[next + i]);
    }
  }
  return {};
}

void print(const Scores& scores, size_t n_windows, uint32_t context, bool json) {
  const auto error = scores.standard_error();
  if (json) {
    fmt::print(
        "{{\"perplexity\":{:.9g},\"standard_error\":{},\"tokens\":{},\"windows\":{},"
        "\"context\":{}}}\n",
        scores.perplexity(), error ? fmt::format("{:.9g}", *error) : "null", scores.n(), n_windows,
        context);
    return;
  }
  fmt::print("perplexity {:.4f} +- {} over {} tokens behind the middle of {} windows of {}\n",
             scores.perplexity(), error ? fmt::format("{:.4f}", *error) : "unknown", scores.n(),
             n_windows, context);
}

}  // namespace

Status perplexity(const PerplexityOptions& options) {
  BP_ASSIGN(TextTokens text, tokens_of_file(options.model.model, options.file));
  const auto context = static_cast<uint32_t>(std::min<size_t>(options.context, text.tokens.size()));
  if (context < 2) {
    return invalid_argument(options.file + " is too short: two tokens are the least");
  }
  const size_t n_windows = text.tokens.size() / context;
  BP_ASSIGN(SingleSequence sequence, SingleSequence::create(options.model, context, kRows));
  BP_TRY(sequence.check(text.tokens));
  Scores scores;
  ProgressBar progress("perplexity");
  for (size_t i = 0; i < n_windows; ++i) {
    progress.c()->report(progress.c()->user, i, n_windows);
    const std::span window = std::span(text.tokens).subspan(i * context, context);
    if (text.bos != text::kNoToken) window[0] = text.bos;
    BP_TRY(score(sequence, window, std::min(context / 2 + 1, context - 1), scores));
  }
  progress.c()->report(progress.c()->user, n_windows, n_windows);
  print(scores, n_windows, context, options.json);
  return {};
}

}  // namespace bp::cli
