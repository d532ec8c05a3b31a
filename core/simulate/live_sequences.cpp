#include "core/simulate/live_sequences.hpp"

#include <algorithm>
#include <cassert>

namespace bp::simulate {

namespace {

// Of a finished sequence until it is removed.
constexpr uint32_t kFinished = UINT32_MAX;

int32_t own_content(uint32_t request) {
  return -1 - static_cast<int32_t>(request);
}

}  // namespace

LiveSequences::LiveSequences(const Trace& trace, const Limits& limits)
    : trace_(trace), limits_(limits), kv_({limits.n_blocks + 1, 1, 1, limits.prefix_cache}) {}

template <class Visit>
void LiveSequences::for_each_column(Visit&& visit) {
  auto& c = columns_;
  for (auto* column : {&c.id, &c.arrival_us, &c.deadline_us, &c.last_run_step}) visit(*column);
  for (auto* column :
       {&c.state, &c.tenant, &c.n_prompt, &c.n_tokens, &c.n_computed, &c.n_cached, &c.n_held}) {
    visit(*column);
  }
  visit(c.priority);
  visit(slots_);
}

uint32_t LiveSequences::n_decoding() const {
  const auto& c = columns_;
  uint32_t n = 0;
  for (size_t i = 0; i < c.id.size(); ++i) {
    n += c.state[i] == BP_SEQ_RUNNING && c.n_computed[i] + 1 == c.n_tokens[i] ? 1 : 0;
  }
  return n;
}

bool LiveSequences::fits(const TraceRequest& request) const {
  const uint64_t n_tokens = uint64_t{request.n_prompt} + request.n_output;
  return n_tokens <= uint64_t{limits_.n_blocks} * limits_.block_size;
}

int32_t LiveSequences::shared_content(const Prefix& prefix, uint32_t block) const {
  const uint64_t last = (uint64_t{block} + 1) * limits_.block_size - 1;
  return trace_.prefix_ids[prefix.first_id + static_cast<size_t>(last / prefix.id_tokens)];
}

void LiveSequences::fill(Live& s, uint32_t request) const {
  const TraceRequest& r = trace_.requests[request];
  s.request = request;
  s.n_end = r.n_prompt + r.n_output;
  s.n_shared_blocks = s.n_first_computed = 0;
  s.started = s.preempted = false;
  s.last_token_us = 0;
  s.contents.assign((s.n_end + limits_.block_size - 1) / limits_.block_size, own_content(request));
  if (r.prefix == kNoPrefix) return;
  const Prefix& prefix = trace_.prefixes[r.prefix];
  const uint64_t n_shared = std::min<uint64_t>(prefix.n_tokens(), r.n_prompt);
  s.n_shared_blocks = static_cast<uint32_t>(n_shared / limits_.block_size);
  for (uint32_t b = 0; b < s.n_shared_blocks; ++b) s.contents[b] = shared_content(prefix, b);
}

void LiveSequences::add(uint32_t request) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<uint32_t>(pool_.size()));
    pool_.emplace_back();
  }
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  fill(pool_[slot], request);
  for_each_column([](auto& column) { column.push_back({}); });
  const size_t i = size() - 1;
  const TraceRequest& r = trace_.requests[request];
  columns_.id[i] = request;
  columns_.state[i] = BP_SEQ_WAITING;
  columns_.priority[i] = r.priority;
  columns_.tenant[i] = r.tenant;
  columns_.arrival_us[i] = r.arrival_us;
  columns_.n_prompt[i] = r.n_prompt;
  columns_.n_tokens[i] = r.n_prompt;
  columns_.last_run_step[i] = UINT64_MAX;
  slots_[i] = slot;
  if (pool_[slot].n_shared_blocks > 0) note_matchable();
}

void LiveSequences::note_matchable() {
  ++n_matchable_;
  refreshed_version_ = 0;
}

std::string_view LiveSequences::salt(const Live& s) const {
  return trace_.tenants[trace_.requests[s.request].tenant];
}

std::span<const int32_t> LiveSequences::searched(const Live& s, size_t i) const {
  // Never all of a sequence's tokens, since the last one must be computed.
  const uint32_t n_full = (columns_.n_tokens[i] - 1) / limits_.block_size;
  const uint32_t n = s.preempted ? n_full : std::min(n_full, s.n_shared_blocks);
  return std::span(s.contents).first(size_t{n} + 1);
}

void LiveSequences::refresh_prefixes() {
  if (refreshed_version_ == kv_.prefix_version()) return;
  refreshed_version_ = kv_.prefix_version();
  for (size_t i = 0; i < size(); ++i) {
    Live& s = live(i);
    if (running(i) || (s.n_shared_blocks == 0 && !s.preempted)) continue;
    const uint32_t n_blocks = kv_.find_prefix(s.match, searched(s, i), salt(s));
    columns_.n_cached[i] = n_blocks * limits_.block_size;
  }
}

// Every step anew: others begin and cease to use the blocks.
void LiveSequences::count_shared(bool may_start) {
  for (size_t i = 0; i < size(); ++i) {
    if (!running(i)) columns_.n_held[i] = may_start ? kv_.n_in_use(live(i).match) : 0;
  }
}

bp_snapshot LiveSequences::snapshot(const engine::StepLimits& limits) {
  if (limits_.prefix_cache && n_matchable_ > 0) {
    const bool may_start = n_running_ < limits.max_sequences;
    if (may_start) refresh_prefixes();
    count_shared(may_start);
  }
  bp_snapshot snapshot = columns_.view(kv_, limits);
  snapshot.block_size = limits_.block_size;
  return snapshot;
}

void LiveSequences::release(size_t i) {
  kv_.release(live(i).table);
  columns_.n_computed[i] = columns_.n_held[i] = 0;
  --n_running_;
}

void LiveSequences::preempt(size_t i) {
  release(i);
  columns_.state[i] = BP_SEQ_WAITING;
  live(i).preempted = true;
  note_matchable();
}

uint32_t LiveSequences::start(size_t i) {
  Live& s = live(i);
  const uint32_t n_blocks = kv_.take_prefix(s.table, searched(s, i), salt(s));
  s.match.clear();
  const uint32_t n_cached = n_blocks * limits_.block_size;
  columns_.state[i] = BP_SEQ_RUNNING;
  columns_.n_cached[i] = 0;
  columns_.n_computed[i] = n_cached;
  columns_.n_held[i] = n_blocks;
  s.n_first_computed = std::max(s.n_first_computed, n_cached);
  s.started = true;
  ++n_running_;
  n_matchable_ -= s.n_shared_blocks > 0 || s.preempted ? 1 : 0;
  return n_cached;
}

bool LiveSequences::reserve(size_t i, uint32_t n) {
  const uint32_t end = columns_.n_computed[i] + n;
  const uint32_t held = columns_.n_held[i];
  if (end <= held * uint64_t{limits_.block_size}) return true;
  const uint32_t wanted = (end + limits_.block_size - 1) / limits_.block_size;
  if (!kv_.reserve(live(i).table, held, wanted, block_ops_)) return false;
  assert(block_ops_.empty());
  columns_.n_held[i] = wanted;
  return true;
}

uint32_t LiveSequences::commit(size_t i, uint32_t n) {
  Live& s = live(i);
  const uint32_t end = columns_.n_computed[i] += n;
  if (end >= (uint64_t{s.table.n_registered} + 1) * limits_.block_size) {
    kv_.register_full(s.table, s.contents, end / limits_.block_size, salt(s));
  }
  if (end <= s.n_first_computed) return 0;
  const uint32_t n_new = end - s.n_first_computed;
  s.n_first_computed = end;
  return n_new;
}

bool LiveSequences::append_token(size_t i) {
  if (++columns_.n_tokens[i] < live(i).n_end) return true;
  release(i);
  columns_.state[i] = kFinished;
  finished_.push_back(i);
  return false;
}

void LiveSequences::remove_finished() {
  // Mostly one: then a column is moved as a whole.
  for (auto it = finished_.rbegin(); it != finished_.rend(); ++it) {
    free_slots_.push_back(slots_[*it]);
    for_each_column(
        [&](auto& column) { column.erase(column.begin() + static_cast<ptrdiff_t>(*it)); });
  }
  finished_.clear();
}

}  // namespace bp::simulate
