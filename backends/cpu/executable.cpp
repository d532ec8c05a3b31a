#include "backends/cpu/executable.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include "backends/cpu/kv_layout.hpp"
#include "backends/cpu/step.hpp"
#include "backends/cpu/weights/file_pages.hpp"
#include "backends/cpu/weights/weight_preparation.hpp"
#include "backplane/validate_batch.hpp"

namespace bp::cpu {

namespace {

bp_dtype dtype_of(KvType type) {
  constexpr bp_dtype kTypes[] = {BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_Q8_0,
                                 BP_DTYPE_Q4_0};
  return kTypes[static_cast<int>(type)];
}

// Whole scales' dimensions of 8-bit and 4-bit keys are Hadamard-transformed before they are rounded
// (kernel_table.hpp).
constexpr uint32_t kSpreadKeys = 0x63707501;

uint32_t basis_of(KvType keys, std::span<const bp_kv_slot> slots) {
  const auto is_spread = [](const bp_kv_slot& slot) { return slot.k_head_dim >= kKvScaleDims; };
  return is_quantised(keys) && std::any_of(slots.begin(), slots.end(), is_spread)
             ? kSpreadKeys
             : BP_KV_BASIS_PLAIN;
}

}  // namespace

CpuExecutable::CpuExecutable(std::shared_ptr<const ProgramView> program,
                             const bp_compile_options& options, std::shared_ptr<const Team> team,
                             const Kernels& kernels, KvCache kv)
    : program_(std::move(program)),
      options_(options),
      n_threads_(options.n_threads == 0 ? team->n_threads()
                                        : std::min(options.n_threads, team->n_threads())),
      team_(std::move(team)),
      kernels_(kernels),
      kv_(std::move(kv)),
      states_(*program_),
      images_(*program_, kv_.block_size(), dtype_of(kv_.k_type()), dtype_of(kv_.v_type()),
              basis_of(kv_.k_type(), program_->kv_slots())),
      shares_(n_threads_) {}

// An output has each of a step's tokens once at most.
StageLimits CpuExecutable::limits() const {
  return {options_.max_step_tokens, std::min(options_.max_output_rows, options_.max_step_tokens),
          &kernels_, n_threads_};
}

Status CpuExecutable::prepare(Plan plan, uint64_t resident_bytes,
                              const std::shared_ptr<const MappedFile>& streamed_file) {
  plan_ = std::move(plan);
  stream_ = WeightStream(plan_.mapped_weights(), resident_bytes, streamed_file);
  const StageLimits most = limits();
  shared_bytes_ = plan_.shared_bytes(most);
  scratch_bytes_ = plan_.scratch_bytes(most);
  buffers_begin_ = shared_bytes_ + n_threads_ * scratch_bytes_;
  const size_t bytes = buffers_begin_ + lay_out_buffers(plan_, most);
  BP_ASSIGN(workspace_, AlignedBuffer::allocate(bytes, "the workspace of a step"));
  return {};
}

Status CpuExecutable::memory(bp_memory_info& out) {
  out.block_size = kv_.block_size();
  out.weights_bytes = plan_.weights_bytes();
  out.workspace_bytes = workspace_.size() + stream_.window_bytes();
  WeightFiles own = weight_files(*program_, {});
  for (const WeightStream::Use& use : plan_.mapped_weights()) own.data.push_back(use.bytes.data());
  // The window of streamed weights is memory that no step has touched yet.
  uint64_t available = available_beside_others(own);
  available -= std::min(available, stream_.window_bytes());
  // The part of mapped weights that stays was chosen to leave room for the cache of one sequence of
  // full length; hosts take half of what is available.
  const uint64_t beside_weights = available - std::min(available, stream_.resident_bytes());
  const uint64_t of_sequence = kv_.bytes_of(options_.max_context) + states_.entry_bytes();
  const uint64_t for_kv = std::min(2 * of_sequence, available / 2);
  out.available_bytes = std::max(beside_weights, for_kv);
  out.n_groups = program_->n_groups();
  out.max_in_flight = 1;
  const uint32_t n_kv_groups = program_->header().n_kv_groups;
  for (uint32_t g = 0; g < n_kv_groups; ++g) {
    out.block_bytes[g] = kv_.block_bytes(g);
    out.packed_block_bytes[g] = kv_.packed_block_bytes(g);
  }
  if (out.n_groups > n_kv_groups) out.block_bytes[n_kv_groups] = states_.entry_bytes();
  out.k_dtype = dtype_of(kv_.k_type());
  out.v_dtype = dtype_of(kv_.v_type());
  return {};
}

Status CpuExecutable::kv_allocate(std::span<const uint32_t> n_blocks) {
  if (n_blocks.size() != program_->n_groups()) {
    return invalid_argument("block counts of " + std::to_string(n_blocks.size()) +
                            " groups were given, the program has " +
                            std::to_string(program_->n_groups()));
  }
  const uint32_t n_kv_groups = program_->header().n_kv_groups;
  if (!n_ids_.empty()) return invalid_argument("the KV cache is allocated already");
  // First what may be allocated once more after a failure.
  if (n_blocks.size() > n_kv_groups) BP_TRY(states_.allocate(n_blocks.back()));
  BP_TRY(kv_.allocate(n_blocks.first(n_kv_groups)));
  n_ids_.assign(n_blocks.begin(), n_blocks.end());
  return {};
}

// Of the workspace, what steps need that put out few rows: those of many may be most of it.
std::vector<ByteRange> CpuExecutable::first_written() const {
  constexpr size_t kPart = size_t{4} << 20;
  StageLimits few = limits();
  few.max_output_rows = std::min(few.max_output_rows, kFewOutputRows);
  std::vector<ByteRange> ranges = written_ranges(plan_, few);
  for (ByteRange& range : ranges)
    range = {buffers_begin_ + range.begin, buffers_begin_ + range.end};
  ranges.push_back({0, buffers_begin_});
  std::vector<ByteRange> parts;
  for (const ByteRange& range : ranges) {
    for (size_t begin = range.begin; begin < range.end; begin += kPart) {
      parts.push_back({begin, std::min(begin + kPart, range.end)});
    }
  }
  return parts;
}

// Touches workspace and mapped weights, so that the first steps meet no page faults in them.
Status CpuExecutable::warm_up(const Progress& progress) {
  if (progress.report(0, 1)) return cancelled("warming up was stopped");
  const std::vector<ByteRange> parts = first_written();
  team_->parallel_for(parts.size(), [this, &parts](uint64_t i) {
    std::memset(workspace_.data() + parts[i].begin, 0, parts[i].end - parts[i].begin);
  });
  BP_TRY(stream_.load(*team_, progress));
  for (const WeightRows& table : plan_.tables) read_ahead(table.data, table.source_bytes());
  if (progress.report(1, 1)) return cancelled("warming up was stopped");
  return {};
}

Status CpuExecutable::submit(const bp_batch& batch, uint64_t& ticket) {
  if (!kv_.is_allocated()) return invalid_argument("kv_allocate has not been called");
  BatchLimits limits = BatchLimits::of(options_);
  limits.block_size = kv_.block_size();
  limits.n_outputs = static_cast<uint32_t>(plan_.outputs.size());
  limits.n_blocks = kv_.n_blocks();
  limits.n_state_slots = states_.n_slots();
  limits.n_state_entries = states_.n_entries();
  BP_TRY(validate_batch(batch, limits));
  BP_TRY(in_flight_.expect_none());
  Step(*this, batch).run();
  if (plan_.kernel_failure != nullptr) BP_TRY(plan_.kernel_failure->take());
  ticket = in_flight_.begin();
  return {};
}

Status CpuExecutable::collect(uint64_t ticket) {
  return in_flight_.collect(ticket);
}

}  // namespace bp::cpu
