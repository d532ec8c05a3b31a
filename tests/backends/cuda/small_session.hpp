#pragma once
// The backend on the emulated device with a tiny model, as several tests configure it.

#include <memory>
#include <string_view>
#include <vector>

#include "backends/cuda/backend.hpp"
#include "backplane/plugin.hpp"
#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"
#include "sdk/conformance/support/tiny_llama.hpp"

namespace bp::cuda {

inline constexpr bp_backend_factory kFactory = backend_factory<CudaBackend>();
inline constexpr uint32_t kVocab = conformance::TinyLlama::kVocab, kBlocks = 16;

inline bp_compile_options small_options(uint32_t max_output_rows = 16) {
  bp_compile_options options = conformance::BackendSession::default_options();
  options.max_context = 128;
  options.max_step_tokens = 64;
  options.max_sequences = 6;
  options.max_output_rows = max_output_rows;
  options.block_size = 16;
  return options;
}

// Three tokens of each sequence, in a block of its own.
inline conformance::BatchBuilder prompts(uint32_t n_seqs) {
  conformance::BatchBuilder batch;
  for (uint32_t s = 0; s < n_seqs; ++s) {
    batch.add_sequence({1, 2, static_cast<int32_t>(s)}, 0, {static_cast<int32_t>(1 + s)});
  }
  return batch;
}

// The n_each tokens behind them, and the last row of each sequence in memory filled with `filled`.
inline conformance::BatchBuilder decodes(uint32_t n_seqs, uint32_t n_each = 1,
                                         float filled = 0.0f) {
  conformance::BatchBuilder batch;
  std::vector<uint32_t> rows;
  for (uint32_t s = 0; s < n_seqs; ++s) {
    const std::vector<int32_t> tokens(n_each, static_cast<int32_t>(5 + s));
    batch.add_sequence(tokens, 3, {static_cast<int32_t>(1 + s)});
    rows.push_back((s + 1) * n_each - 1);
  }
  batch.add_output(0, rows, kVocab, filled);
  return batch;
}

// A session with one key of the configuration set.
class Configured {
 public:
  Configured(conformance::TinyLlama& llama, std::string_view key, bool value,
             const bp_compile_options& options = small_options()) {
    param_.key = to_bp_str(key);
    param_.type = BP_TYPE_BOOL;
    param_.i = value ? 1 : 0;
    params_ = make_growable<bp_params>();
    params_.n_params = 1;
    params_.params = &param_;
    session_ = std::make_unique<conformance::BackendSession>(kFactory, nullptr, &params_);
    session_->compile(llama.program(), options, kBlocks);
  }
  conformance::BackendSession& operator*() { return *session_; }
  conformance::BackendSession* operator->() { return session_.get(); }

 private:
  bp_param param_{};
  bp_params params_{};
  std::unique_ptr<conformance::BackendSession> session_;
};

}  // namespace bp::cuda
