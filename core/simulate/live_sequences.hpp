#pragma once
// The requests that the scheduler sees, as the columns that it sees them in, and their KV blocks.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/engine/snapshot.hpp"
#include "core/kv/block_manager.hpp"
#include "core/simulate/limits.hpp"
#include "core/simulate/trace.hpp"

namespace bp::simulate {

// The engine's block manager works here on blocks instead of tokens: its "token" is the content of
// a whole block, a number of a shared prefix's piece or of the request whose own text it is. Since
// content counts together with all that is before it, this finds what equal tokens would.
class LiveSequences {
 public:
  // `trace` outlives this.
  LiveSequences(const Trace& trace, const Limits& limits);

  [[nodiscard]] size_t size() const { return columns_.id.size(); }
  [[nodiscard]] bool empty() const { return columns_.id.empty(); }
  [[nodiscard]] uint32_t n_running() const { return n_running_; }
  [[nodiscard]] uint32_t n_waiting() const { return static_cast<uint32_t>(size()) - n_running_; }
  [[nodiscard]] uint32_t n_decoding() const;
  [[nodiscard]] uint32_t n_used_blocks() const { return kv_.n_used(); }
  // Whether a request can ever be held by the blocks.
  [[nodiscard]] bool fits(const TraceRequest& request) const;

  void add(uint32_t request);
  // Looks prefixes up as the engine does. Columns and the answer are valid until the next change.
  bp_snapshot snapshot(const engine::StepLimits& limits);
  engine::ScheduleColumns& columns() { return columns_; }

  // Of index i of the columns.
  [[nodiscard]] uint32_t request(size_t i) const { return live(i).request; }
  [[nodiscard]] bool running(size_t i) const { return columns_.state[i] == BP_SEQ_RUNNING; }
  // Whether it ever was.
  [[nodiscard]] bool started(size_t i) const { return live(i).started; }
  void preempt(size_t i);
  // Starts with the blocks that the prefix cache has for it; answers their tokens.
  uint32_t start(size_t i);
  // Blocks for n more tokens; false where they are not to be had.
  bool reserve(size_t i, uint32_t n);
  // n tokens are computed. Answers how many of them never were before.
  uint32_t commit(size_t i, uint32_t n);
  // Whether its last known token is computed, so that there is a new one.
  [[nodiscard]] bool has_new_token(size_t i) const {
    return columns_.n_computed[i] == columns_.n_tokens[i];
  }
  // Appends the new token; false when it was the last one, which ends the sequence: its blocks are
  // free, and remove_finished() takes it out of the columns.
  bool append_token(size_t i);
  void remove_finished();

  // Time of the sequence's last token; 0 before the first.
  uint64_t& last_token_us(size_t i) { return live(i).last_token_us; }

 private:
  struct Live {
    uint32_t request = 0;
    uint32_t n_end = 0;             // tokens of prompt and output
    uint32_t n_shared_blocks = 0;   // leading ones with a prefix's content
    uint32_t n_first_computed = 0;  // tokens computed at least once, or cached
    bool started = false;
    bool preempted = false;  // blocks of its own may be in the prefix cache
    uint64_t last_token_us = 0;
    kv::PrefixMatch match;  // while it waits
    kv::BlockTable table;
    std::vector<int32_t> contents;  // of each of its blocks
  };

  Live& live(size_t i) { return pool_[slots_[i]]; }
  [[nodiscard]] const Live& live(size_t i) const { return pool_[slots_[i]]; }
  [[nodiscard]] std::string_view salt(const Live& s) const;
  // Contents of the blocks that a prefix may be found for, and one more.
  [[nodiscard]] std::span<const int32_t> searched(const Live& s, size_t i) const;
  [[nodiscard]] int32_t shared_content(const Prefix& prefix, uint32_t block) const;
  void fill(Live& s, uint32_t request) const;
  // There is one more sequence that waits and may have a prefix in the cache.
  void note_matchable();
  void refresh_prefixes();
  void count_shared(bool may_start);
  void release(size_t i);
  // Calls visit(column) for each column, slots_ too.
  template <class Visit>
  void for_each_column(Visit&& visit);

  const Trace& trace_;
  const Limits limits_;
  kv::BlockManager kv_;
  engine::ScheduleColumns columns_;
  std::vector<uint32_t> slots_;  // by column index, of pool_
  std::vector<Live> pool_;
  std::vector<uint32_t> free_slots_;
  std::vector<bp_block_op> block_ops_;  // none: nothing is forked
  std::vector<size_t> finished_;        // column indices, ascending
  uint32_t n_running_ = 0;
  uint32_t n_matchable_ = 0;        // that wait and may have a prefix in the cache
  uint64_t refreshed_version_ = 0;  // of the cache, when those were looked up; 0: not all were
};

}  // namespace bp::simulate
