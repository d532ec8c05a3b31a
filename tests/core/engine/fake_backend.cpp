#include "fake_backend.hpp"

#include <chrono>
#include <cmath>
#include <deque>
#include <limits>
#include <thread>
#include <utility>

#include "backplane/row_sampling.hpp"

namespace bp::engine::testing {

namespace {

uint64_t mix(uint64_t x) {
  x ^= x >> 31;
  x *= 0x7fb5d329728ea185ULL;
  x ^= x >> 27;
  x *= 0x81dadef4bc2dd44dULL;
  return x ^ (x >> 33);
}

// Grows to the greatest value seen.
void raise(std::atomic<uint32_t>& most, uint32_t value) {
  if (value > most.load()) most = value;
}

struct Slot {
  int32_t token = -12345;
  int32_t position = -1;
};

class FakeExecutable final : public Executable {
 public:
  FakeExecutable(FakeModel& model, const bp_compile_options& options)
      : model_(model), options_(options) {}

  Status memory(bp_memory_info& out) override {
    out.block_size = model_.block_size;
    out.n_groups = model_.has_state ? 2 : 1;
    out.max_in_flight = max_in_flight();
    return {};
  }

  Status kv_allocate(std::span<const uint32_t> n_blocks) override {
    n_blocks_ = n_blocks[0];
    if (model_.has_state) states_.assign(n_blocks[1], 0);
    slots_.resize(size_t{n_blocks_} * model_.block_size);
    return {};
  }

  // A lost device has the batches in flight until it is destroyed.
  ~FakeExecutable() override {
    if (is_lost_) compute_all();
  }

  Status submit(const bp_batch& batch, uint64_t& ticket) override {
    expect_device();
    if (model_.before_step) model_.before_step();
    ++model_.n_steps;
    if (model_.fail_at >= 0 && model_.fail_at-- == 0) return told_to_fail();
    observe(batch);
    if (in_flight_.size() >= max_in_flight()) model_.violate("too many steps in flight");
    if (!in_flight_.empty()) ++model_.n_steps_ahead;
    Step step{last_ticket_ + 1, batch};
    if (!model_.runs_ahead) compute(step);  // may throw; then nothing is in flight
    in_flight_.push_back(step);
    ticket = ++last_ticket_;
    return {};
  }

  Status prepare_transfer(bp_kv_image_info& out) override {
    if (!slots_.empty()) model_.violate("transfers are prepared after kv_allocate");
    out.n_groups = model_.has_state ? 2 : 1;
    out.image_bytes[0] = model_.block_size * sizeof(Slot);
    out.image_bytes[1] = sizeof(uint64_t);
    return {};
  }

  Status export_blocks(uint32_t group, std::span<const int32_t> blocks,
                       std::span<uint8_t> images) override {
    expect_device();
    if (model_.fail_export_at >= 0 && model_.fail_export_at-- == 0) return told_to_fail();
    for_each_image(group, blocks, images.size(), [&](void* kept, size_t at, size_t n_bytes) {
      std::memcpy(images.data() + at, kept, n_bytes);
    });
    return {};
  }

  // One that fails leaves nothing of use in the blocks.
  Status import_blocks(uint32_t group, std::span<const int32_t> blocks,
                       std::span<const uint8_t> images) override {
    expect_device();
    const bool fails = model_.fail_import_at >= 0 && model_.fail_import_at-- == 0;
    for_each_image(group, blocks, images.size(), [&](void* kept, size_t at, size_t n_bytes) {
      fails ? std::memset(kept, 0x55, n_bytes) : std::memcpy(kept, images.data() + at, n_bytes);
    });
    return fails ? told_to_fail() : Status();
  }

  Status collect(uint64_t ticket) override {
    expect_device();
    if (in_flight_.empty() || in_flight_.front().ticket != ticket) {
      model_.violate("collect of a ticket that is not the oldest in flight");
      return internal_error("no such ticket");
    }
    Step step = in_flight_.front();
    in_flight_.pop_front();
    compute(step);
    if (model_.fail_collect_at < 0 || model_.fail_collect_at-- > 0) return {};
    return told_to_fail();
  }

 private:
  struct Step {
    uint64_t ticket;
    bp_batch batch;
    bool is_computed = false;
  };

  Status told_to_fail() {
    is_lost_ = model_.fail_status == BP_DEVICE_LOST;
    return {static_cast<Code>(model_.fail_status), "the fake backend was told to fail"};
  }
  void expect_device() const {
    if (is_lost_) model_.violate("a call after DEVICE_LOST");
  }

  [[nodiscard]] uint32_t max_in_flight() const { return model_.runs_ahead ? 2 : 1; }

  void compute_all() {
    for (Step& step : in_flight_) compute(step);
  }

  void compute(Step& step) {
    if (std::exchange(step.is_computed, true)) return;
    bp_batch& batch = step.batch;
    const std::vector<int32_t> tokens = known_tokens(batch);
    batch.tokens = tokens.data();
    wait(batch);
    run_block_ops(batch);
    if (model_.has_state) check_states(batch);
    for (uint32_t s = 0; s < batch.n_seqs; ++s) {
      batch.seq_status[s] = stopped(batch, s) ? BP_SEQ_STOPPED : BP_SEQ_OK;
      if (batch.seq_status[s] == BP_SEQ_OK) write(batch, s);
      if (model_.has_state) advance_state(batch, s);
    }
    chosen_.clear();
    for (uint32_t i = 0; i < batch.n_outputs; ++i) fill(batch, *batch.outputs[i]);
  }

  // With what the step before chose in place of ids of -1-r.
  std::vector<int32_t> known_tokens(const bp_batch& batch) {
    std::vector<int32_t> tokens(batch.tokens, batch.tokens + batch.n_tokens);
    for (int32_t& token : tokens) {
      if (token >= 0) continue;
      const auto row = static_cast<size_t>(-1 - token);
      const bool is_chosen = row < chosen_.size() && chosen_[row].has_value();
      if (!is_chosen) model_.violate("an id names a row from which nothing was chosen");
      token = is_chosen ? *chosen_[row] : 0;
    }
    return tokens;
  }

  template <class F>
  void for_each_image(uint32_t group, std::span<const int32_t> blocks, size_t images_bytes, F&& f) {
    const size_t n_bytes = group == 1 ? sizeof(uint64_t) : model_.block_size * sizeof(Slot);
    if (images_bytes != blocks.size() * n_bytes) model_.violate("images of another size");
    compute_all();
    std::this_thread::sleep_for(std::chrono::microseconds(model_.transfer_delay_us));
    size_t at = 0;
    for (const int32_t block : blocks) {
      if (group == 1 && block == 0) model_.violate("an image of the zero state");
      void* kept = &slot(group == 1 ? 1 : block, 0);
      if (group == 1) kept = &states_[static_cast<size_t>(block)];
      f(kept, at, n_bytes);
      at += n_bytes;
    }
  }

  static bool stopped(const bp_batch& batch, uint32_t s) {
    auto& flag = const_cast<uint32_t&>(batch.stop_seq[s]);
    return std::atomic_ref(flag).load(std::memory_order_relaxed) != 0;
  }

  void observe(const bp_batch& batch) {
    uint32_t n_rows = 0;
    for (uint32_t i = 0; i < batch.n_outputs; ++i) n_rows += batch.outputs[i]->n_rows;
    raise(model_.max_rows, n_rows);
    raise(model_.max_tokens, batch.n_tokens);
    raise(model_.max_sequences, batch.n_seqs);
    model_.n_computed_tokens += batch.n_tokens;
    if (n_rows > options_.max_output_rows) model_.violate("more rows than max_output_rows");
    if (batch.n_tokens > options_.max_step_tokens) model_.violate("more than max_step_tokens");
    if (batch.n_seqs > options_.max_sequences) model_.violate("more than max_sequences");
  }

  void wait(const bp_batch& batch) const {
    for (uint32_t waited = 0; waited < model_.delay_us; waited += 100) {
      bool all = true;
      for (uint32_t s = 0; s < batch.n_seqs; ++s) all = all && stopped(batch, s);
      if (all) return;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  void run_block_ops(const bp_batch& batch) {
    for (uint32_t i = 0; i < batch.n_block_ops; ++i) {
      const bp_block_op& op = batch.block_ops[i];
      if (op.action != BP_BLOCK_COPY || op.space != BP_BLOCK_OF_GROUP || op.index != 0) {
        model_.violate("an unexpected block op");
        continue;
      }
      ++model_.n_copies;
      for (uint32_t k = 0; k < model_.block_size; ++k) {
        slot(op.destination, k) = slot(op.source, k);
      }
    }
  }

  Slot& slot(int32_t block, uint32_t offset) {
    if (block <= 0 || static_cast<uint32_t>(block) >= n_blocks_) {
      model_.violate("block " + std::to_string(block) + " is out of range");
      block = 0;
    }
    return slots_[static_cast<size_t>(block) * model_.block_size + offset];
  }

  Slot& slot_of(const bp_batch& batch, uint32_t s, uint32_t position) {
    const bp_block_table& table = batch.block_tables[0];
    const uint32_t block = position / model_.block_size;
    if (block >= table.stride) {
      model_.violate("a position beyond the block table");
      return slots_[0];
    }
    return slot(table.blocks[size_t{s} * table.stride + block], position % model_.block_size);
  }

  void write(const bp_batch& batch, uint32_t s) {
    for (uint32_t t = batch.query_start[s]; t < batch.query_start[s + 1]; ++t) {
      slot_of(batch, s, static_cast<uint32_t>(batch.positions[t])) = {batch.tokens[t],
                                                                      batch.positions[t]};
    }
    const uint32_t last = batch.query_start[s + 1] - 1;
    if (batch.context_len[s] != static_cast<uint32_t>(batch.positions[last]) + 1) {
      model_.violate("context_len does not end with the last token");
    }
  }

  // As backplane/batch.h wants state_in and state_out.
  void check_states(const bp_batch& batch) {
    std::vector<uint32_t> n_writers(states_.size(), 0), n_readers(states_.size(), 0);
    const auto at = [&](std::vector<uint32_t>& counts, int32_t entry) -> uint32_t& {
      if (entry < 0 || static_cast<size_t>(entry) >= counts.size()) {
        model_.violate("state entry " + std::to_string(entry) + " is out of range");
        return counts[0];
      }
      return counts[static_cast<size_t>(entry)];
    };
    for (uint32_t s = 0; s < batch.n_seqs; ++s) {
      if (batch.state_out[s] == 0) model_.violate("the zero state would be written");
      if (++at(n_writers, batch.state_out[s]) > 1) model_.violate("a state is written twice");
      ++at(n_readers, batch.state_in[s]);
    }
    for (uint32_t s = 0; s < batch.n_seqs; ++s) {
      const int32_t in = batch.state_in[s];
      const bool in_place = in == batch.state_out[s];
      if (in_place) ++model_.n_states_in_place;
      if (in != 0 && n_readers[static_cast<size_t>(in)] > 1) ++model_.n_states_shared;
      if (n_writers[static_cast<size_t>(in)] > (in_place ? 1u : 0u)) {
        model_.violate("a state is read and written by different sequences");
      }
      if ((in == 0) != (batch.positions[batch.query_start[s]] == 0)) {
        model_.violate("a sequence begins with a state, or goes on without one");
      }
    }
  }

  static uint64_t hash_of(std::span<const int32_t> tokens, uint64_t h) {
    for (const int32_t token : tokens) h = mix(h * 31 + static_cast<uint32_t>(token) + 1);
    return h;
  }

  // A stopped sequence leaves half of its work behind.
  void advance_state(const bp_batch& batch, uint32_t s) {
    const uint32_t begin = batch.query_start[s], end = batch.query_start[s + 1];
    const uint32_t n = batch.seq_status[s] == BP_SEQ_OK ? end - begin : (end - begin) / 2;
    uint64_t& state = states_[static_cast<size_t>(batch.state_out[s])];
    const auto in = static_cast<size_t>(batch.state_in[s]);
    state = hash_of({batch.tokens + begin, n}, in == 0 ? 0 : states_[in]);
    if (batch.seq_status[s] != BP_SEQ_OK) return;
    if (state != hash_of(history(batch, s, batch.positions[end - 1]), 0)) {
      model_.violate("a state is not that of the sequence's history");
    }
  }

  void fill(const bp_batch& batch, const bp_output& output) {
    uint32_t s = 0;
    for (uint32_t r = 0; r < output.n_rows; ++r) {
      const uint32_t token = output.rows[r];
      while (token >= batch.query_start[s + 1]) ++s;
      if (output.sampling != nullptr) {
        const bool is_asked = output.sampling->requests[r].choice != BP_CHOOSE_NONE;
        chosen_.push_back(is_asked ? std::optional(0) : std::nullopt);
      }
      if (batch.seq_status[s] != BP_SEQ_OK) continue;
      const std::vector<float> row = model_.logits(history(batch, s, batch.positions[token]));
      if (output.sampling != nullptr && !give_logits(row, *output.sampling, r)) continue;
      ++model_.n_rows_given;
      auto* data = static_cast<char*>(output.data) + r * output.row_stride_bytes;
      std::memcpy(data, row.data(), row.size() * sizeof(float));
      const int32_t wrong = model_.wrong_greatest;
      if (model_.tells_greatest) output.greatest[r] = wrong != -1 ? wrong : greatest_of(row);
    }
  }

  // Answers the request of a row; whether it wants the logits too.
  bool give_logits(const std::vector<float>& row, const bp_sampling& sampling, uint32_t r) {
    const bp_row_request& request = sampling.requests[r];
    if (std::max(request.n_candidates, request.top_k) > model_.max_candidates) {
      model_.violate("more candidates than the backend offers");
    }
    sampling.results[r] = sample_row(row, request);
    if (const int32_t wrong = model_.wrong_token; wrong != -1) sampling.results[r].token = wrong;
    if (chosen_.back()) chosen_.back() = sampling.results[r].token;
    if ((request.flags & BP_ROW_LOGITS) != 0) return true;
    ++model_.n_rows_sampled;
    return false;
  }

  std::vector<int32_t> history(const bp_batch& batch, uint32_t s, int32_t end) {
    std::vector<int32_t> tokens;
    for (int32_t p = 0; p <= end; ++p) {
      const Slot& found = slot_of(batch, s, static_cast<uint32_t>(p));
      if (found.position != p) model_.violate("a slot holds another position's token");
      tokens.push_back(found.token);
    }
    return tokens;
  }

  FakeModel& model_;
  bp_compile_options options_;
  uint32_t n_blocks_ = 0;
  std::vector<Slot> slots_;
  std::vector<uint64_t> states_;
  std::deque<Step> in_flight_;
  std::vector<std::optional<int32_t>> chosen_;  // by the step before, of its rows
  uint64_t last_ticket_ = 0;
  bool is_lost_ = false;
};

class FakeBackend final : public Backend {
 public:
  explicit FakeBackend(FakeModel& model) : model_(model) {}
  static Result<std::unique_ptr<Backend>> create(const Host&, const Params& params) {
    auto* model = reinterpret_cast<FakeModel*>(params.get_int("model", 0));
    return std::unique_ptr<Backend>(std::make_unique<FakeBackend>(*model));
  }
  [[nodiscard]] bool transfers_kv() const override { return model_.transfers; }
  [[nodiscard]] uint32_t max_candidates() const override { return model_.max_candidates; }
  [[nodiscard]] bool takes_chosen() const override { return model_.runs_ahead; }
  void check(const bp_program&, CheckReport&) override {}
  Result<std::unique_ptr<Executable>> compile(const bp_program&,
                                              const bp_compile_options& options) override {
    return std::unique_ptr<Executable>(std::make_unique<FakeExecutable>(model_, options));
  }

 private:
  FakeModel& model_;
};

constexpr bp_backend_factory kFactory = backend_factory<FakeBackend>();

}  // namespace

std::vector<float> FakeModel::logits(std::span<const int32_t> history) const {
  uint64_t h = 0;
  bool nan = false;
  for (const int32_t token : history) {
    h = mix(h * 31 + static_cast<uint32_t>(token) + 1);
    nan = nan || token == nan_token;
  }
  std::vector<float> row(n_vocab);
  for (uint32_t v = 0; v < n_vocab; ++v) {
    row[v] = static_cast<float>(mix(h + v * 0x9e3779b97f4a7c15ULL) >> 40) * 0x1p-24f * 8 - 4;
    if (nan) row[v] = std::numeric_limits<float>::quiet_NaN();
  }
  row[2] = -4;  // the end of generation is rare
  if (!script) return row;
  if (const auto next = script(history)) row[static_cast<size_t>(*next)] = 50;
  return row;
}

const bp_backend_factory* fake_backend_factory() {
  return &kFactory;
}

}  // namespace bp::engine::testing
