// Tokens chosen on the emulated device, in steps that run as graphs, padded, and in steps that do
// not. What is chosen from which rows is backplane-conform's.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/backends/cuda/small_session.hpp"

namespace bp::cuda {
namespace {

using namespace conformance;

class Session {
 public:
  explicit Session(bool uses_graphs) : session_(llama_, "graphs", uses_graphs, small_options(6)) {}

  // The rows of a decode after prompts of equal length, of one token or two each.
  std::vector<float> logits(uint32_t n_seqs, uint32_t n_each) {
    fill(n_seqs);
    BatchBuilder batch = decodes(n_seqs, n_each);
    EXPECT_TRUE(session_->run(batch.build()).ok());
    return batch.output(0);
  }
  // Likewise what is chosen; logits of the rows from first_given on.
  std::vector<bp_row_result> results(uint32_t n_seqs, uint32_t n_each, uint32_t first_given,
                                     std::vector<float>& given) {
    fill(n_seqs);
    BatchBuilder builder = decodes(n_seqs, n_each, -7.0f);
    bp_batch batch = builder.build();
    bp_output output = *batch.outputs[0];
    std::vector<bp_row_request> requests(n_seqs);
    std::vector<bp_row_result> results(n_seqs);
    for (uint32_t s = 0; s < n_seqs; ++s) {
      requests[s].choice = BP_CHOOSE_BEST;
      requests[s].token = -1;
      requests[s].flags = s >= first_given ? BP_ROW_LOGITS : 0;
    }
    auto sampling = make_growable<bp_sampling>();
    sampling.requests = requests.data();
    sampling.results = results.data();
    output.required = BP_OUTPUT_SAMPLING;
    output.sampling = &sampling;
    const bp_output* outputs[] = {&output};
    batch.outputs = outputs;
    EXPECT_TRUE(session_->run(batch).ok());
    given = builder.output(0);
    return results;
  }

 private:
  void fill(uint32_t n_seqs) {
    BatchBuilder batch = prompts(n_seqs);
    EXPECT_TRUE(session_->run(batch.build()).ok());
  }

  TinyLlama llama_;
  Configured session_;
};

TEST(CudaSampling, ChoosesTheSameInGraphsPaddedAndOutside) {
  for (const bool uses_graphs : {false, true}) {
    Session session(uses_graphs);
    for (const uint32_t n_seqs : {1u, 3u, 6u}) {
      for (const uint32_t n_each : {1u, 2u}) {
        const std::vector<float> rows = session.logits(n_seqs, n_each);
        std::vector<float> given;
        const auto found = session.results(n_seqs, n_each, n_seqs / 2, given);
        for (uint32_t s = 0; s < n_seqs; ++s) {
          const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(s * kVocab);
          const auto best = std::max_element(begin, begin + kVocab);
          EXPECT_EQ(found[s].token, best - begin);
          EXPECT_EQ(found[s].token_logit, *best);
          for (uint32_t i = 0; i < kVocab; ++i) {
            EXPECT_EQ(given[s * kVocab + i], s < n_seqs / 2 ? -7.0f : begin[i]);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace bp::cuda
