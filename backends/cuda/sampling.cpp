#include "backends/cuda/sampling.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "backends/cuda/kernels/chosen.hpp"
#include "backplane/plugin.hpp"
#include "backplane/program.h"

namespace bp::cuda {

namespace {

constexpr size_t kAlignment = 256;
constexpr const char* kChosenPurpose = "the tokens chosen in a step";

template <class T>
size_t bytes_of(uint64_t n) {
  return (n * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
}

bool is_sampled(const bp_output& output) {
  return (output.required & BP_OUTPUT_SAMPLING) != 0;
}

// f(output, request, result, i) for the rows that are sampled; i counts them.
template <class F>
void for_each_sample(const bp_batch& batch, F&& f) {
  uint32_t i = 0;
  for (uint32_t o = 0; o < batch.n_outputs; ++o) {
    const bp_output output = copy_growable(batch.outputs[o]);
    if (!is_sampled(output)) continue;
    const bp_sampling sampling = copy_growable(output.sampling);
    for (uint32_t r = 0; r < output.n_rows; ++r) f(output, r, sampling, i++);
  }
}

uint32_t n_candidates_of(const bp_batch& batch) {
  uint32_t n = 0;
  for_each_sample(batch, [&](const bp_output&, uint32_t r, const bp_sampling& sampling, uint32_t) {
    n += sampling.requests[r].n_candidates;
  });
  return n;
}

}  // namespace

uint32_t n_samples_of(const bp_batch& batch) {
  uint32_t n = 0;
  for_each_sample(batch, [&](const bp_output&, uint32_t, const bp_sampling&, uint32_t) { ++n; });
  return n;
}

void pack_samples(const bp_batch& batch, SampleRequest* out) {
  uint32_t first_candidate = 0;
  for_each_sample(
      batch, [&](const bp_output& output, uint32_t r, const bp_sampling& sampling, uint32_t i) {
        const bp_row_request& request = sampling.requests[r];
        out[i] = {request.uniform, output.output, r,
                  request.choice,  request.token, request.n_candidates,
                  first_candidate, request.top_k, request.floor,
                  request.scale};
        first_candidate += request.n_candidates;
      });
}

bool gives_logits(const bp_output& output, uint32_t row) {
  if (!is_sampled(output)) return true;
  return (copy_growable(output.sampling).requests[row].flags & BP_ROW_LOGITS) != 0;
}

Status RowSampler::allocate(Device& device, const Plan& plan, uint32_t max_rows) {
  buffers_ = plan.outputs;
  uint32_t widest = 0;
  for (const uint32_t buffer : buffers_) widest = std::max(widest, plan.buffers[buffer].width);
  params_.n_slices = divide_up(widest, kSliceColumns);
  if (params_.n_slices > kMaxSlices) {
    return unsupported("tokens are chosen from at most " +
                       std::to_string(kMaxSlices * kSliceColumns) + " logits");
  }
  const uint64_t n_slices = uint64_t{max_rows} * params_.n_slices;
  const size_t of_surveys = bytes_of<SliceSurvey>(n_slices), of_masses = bytes_of<double>(n_slices),
               of_best = bytes_of<uint64_t>(n_slices * kMaxCandidates);
  results_bytes_ = bytes_of<bp_row_result>(max_rows);
  candidates_bytes_ = bytes_of<bp_candidate>(uint64_t{max_rows} * kMaxCandidates);
  BP_ASSIGN(device_,
            device.allocate(MemoryKind::kDevice,
                            of_surveys + of_masses + of_best + results_bytes_ + candidates_bytes_,
                            kChosenPurpose));
  uint8_t* at = device_.data();
  const auto take = [&at](size_t n_bytes) { return std::exchange(at, at + n_bytes); };
  params_.surveys = reinterpret_cast<SliceSurvey*>(take(of_surveys));
  params_.masses = reinterpret_cast<double*>(take(of_masses));
  params_.best = reinterpret_cast<uint64_t*>(take(of_best));
  params_.results = reinterpret_cast<bp_row_result*>(take(results_bytes_));
  params_.candidates = reinterpret_cast<bp_candidate*>(take(candidates_bytes_));
  return {};
}

Result<SampleRoom> RowSampler::make_room(Device& device) const {
  SampleRoom room;
  BP_ASSIGN(room.results, device.allocate(MemoryKind::kPinned, results_bytes_, kChosenPurpose));
  BP_ASSIGN(room.candidates, device.allocate(MemoryKind::kPinned, candidates_bytes_, kChosenPurpose));
  return room;
}

Status RowSampler::put_chosen(Stream& stream, int32_t* tokens, uint32_t n_tokens,
                              uint32_t n_ids) const {
  ChosenParams p;
  p.tokens = tokens;
  p.results = params_.results;
  p.n_tokens = n_tokens;
  p.n_ids = n_ids;
  return stream.launch(chosen_kernel(), chosen_geometry(p), p);
}

Status RowSampler::enqueue(const StageContext& context) const {
  SampleParams p = params_;
  p.step = context.step;
  p.n_rows = context.shape.n_samples;
  for (size_t o = 0; o < buffers_.size(); ++o) {
    const Buffer& buffer = context.buffers[buffers_[o]];
    p.outputs[o] = {context.rows(buffers_[o]), buffer.width,
                    buffer.rows == BP_ROWS_TOKENS ? 1u : 0u};
  }
  BP_TRY(context.stream.launch(survey_kernel(), survey_geometry(p), p));
  BP_TRY(context.stream.launch(weigh_kernel(), survey_geometry(p), p));
  return context.stream.launch(choose_kernel(), choose_geometry(p), p);
}

Status RowSampler::bring(Stream& stream, const bp_batch& batch, const SampleRoom& room) const {
  const size_t n = n_samples_of(batch), n_candidates = n_candidates_of(batch);
  if (n == 0) return {};
  BP_TRY(stream.copy_to_host(room.results.data(), params_.results, n * sizeof(bp_row_result)));
  if (n_candidates == 0) return {};
  return stream.copy_to_host(room.candidates.data(), params_.candidates,
                             n_candidates * sizeof(bp_candidate));
}

void RowSampler::hand_over(const bp_batch& batch, const std::vector<uint32_t>& sequence_of,
                           const SampleRoom& room, std::vector<int32_t>& chosen) {
  const auto* results = reinterpret_cast<const bp_row_result*>(room.results.data());
  const auto* candidates = reinterpret_cast<const bp_candidate*>(room.candidates.data());
  for_each_sample(
      batch, [&](const bp_output& output, uint32_t r, const bp_sampling& sampling, uint32_t i) {
        const bp_row_request& request = sampling.requests[r];
        if (batch.seq_status[sequence_of[output.rows[r]]] == BP_SEQ_OK) {
          sampling.results[r] = results[i];
          std::copy_n(candidates, results[i].n_candidates, request.candidates);
          chosen[i] = results[i].flags == 0 ? results[i].token : -1;
        }
        candidates += request.n_candidates;
      });
}

}  // namespace bp::cuda
