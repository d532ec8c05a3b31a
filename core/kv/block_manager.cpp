#include "core/kv/block_manager.hpp"

#include <algorithm>
#include <cassert>

namespace bp::kv {

BlockManager::BlockManager(const Options& options)
    : options_(options),
      pool_(options.n_blocks),
      states_(options.n_state_entries),
      cache_(options.n_blocks) {
  assert(options.block_size >= 1);
  options_.prefix_cache = options.prefix_cache && !states_.is_used();
}

uint32_t BlockManager::n_held(const BlockTable& table, uint32_t n_computed) const {
  const auto held = static_cast<uint32_t>(table.blocks.size());
  const uint32_t next = n_computed / options_.block_size;
  const bool needs_copy = next < held && pool_.n_users(table.blocks[next]) > 1;
  return needs_copy ? held - 1 : held;
}

std::span<const int32_t> BlockManager::matchable(std::span<const int32_t> tokens) const {
  if (!options_.prefix_cache || tokens.empty()) return {};
  return tokens.first((tokens.size() - 1) / options_.block_size * options_.block_size);
}

template <class Visit>
uint32_t BlockManager::walk_prefix(std::span<const int32_t> tokens, std::string_view salt,
                                   Visit&& visit) const {
  const size_t size = options_.block_size;
  tokens = matchable(tokens);
  PrefixNode parent = kEmptyPrefix;
  size_t begin = 0;
  for (; begin < tokens.size(); begin += size) {
    const auto node = cache_.find({parent, salt, tokens.subspan(begin, size)});
    if (!node) break;
    parent = *node;
    visit(parent);
  }
  return static_cast<uint32_t>(begin);
}

uint32_t BlockManager::find_prefix(std::span<const int32_t> tokens, std::string_view salt) const {
  return walk_prefix(tokens, salt, [](const PrefixNode&) {});
}

uint32_t BlockManager::find_prefix(PrefixMatch& match, std::span<const int32_t> tokens,
                                   std::string_view salt) {
  cache_.update(match, matchable(tokens), options_.block_size, salt);
  return static_cast<uint32_t>(match.n_blocks()) * options_.block_size;
}

uint32_t BlockManager::n_in_use(const PrefixMatch& match) const {
  const auto is_idle = [this](const PrefixNode& node) { return pool_.n_users(node.block) == 0; };
  return static_cast<uint32_t>(std::ranges::find_if(match.nodes(), is_idle) -
                               match.nodes().begin());
}

uint32_t BlockManager::take_prefix(BlockTable& table, std::span<const int32_t> tokens,
                                   std::string_view salt) {
  assert(table.blocks.empty());
  const uint32_t n_cached = walk_prefix(tokens, salt, [&](const PrefixNode& node) {
    table.blocks.push_back(node.block);
    table.prefix = node;
  });
  table.n_registered = static_cast<uint32_t>(table.blocks.size());
  for (const BlockId block : table.blocks) use(block);
  return n_cached;
}

void BlockManager::use(BlockId block) {
  if (pool_.n_users(block) == 0) cache_.set_used(block);
  pool_.add_user(block);
}

void BlockManager::drop(BlockId block) {
  if (!pool_.remove_user(block)) return;
  if (cache_.contains(block)) {
    cache_.set_idle(block);
  } else {
    pool_.free(block);
  }
}

bool BlockManager::allocate(uint32_t n, BlockId after, std::vector<BlockId>& out) {
  if (n > n_available()) return false;
  while (pool_.n_free() < n) pool_.free(*cache_.evict());
  pool_.allocate(n, after, out);
  return true;
}

bool BlockManager::reserve(BlockTable& table, uint32_t n_computed, uint32_t n_tokens,
                           std::vector<bp_block_op>& block_ops) {
  const auto size = static_cast<uint32_t>(table.blocks.size());
  const uint32_t wanted = std::max(blocks_for(n_tokens), size);
  const uint32_t next = n_computed / options_.block_size;
  const bool copies = n_tokens > n_computed && next < size && pool_.n_users(table.blocks[next]) > 1;
  if (wanted - size + (copies ? 1 : 0) > n_available() || lacks_state(table)) return false;
  reserve_state(table);
  if (copies) {
    const BlockId source = table.blocks[next];
    std::vector<BlockId> copy;
    if (!allocate(1, next == 0 ? kNullBlock : table.blocks[next - 1], copy)) return false;
    for (uint32_t group = 0; group < options_.n_groups; ++group) {
      block_ops.push_back({BP_BLOCK_COPY, BP_BLOCK_OF_GROUP, group, source, copy[0]});
    }
    table.blocks[next] = copy[0];
    drop(source);
  }
  const BlockId last = table.blocks.empty() ? kNullBlock : table.blocks.back();
  return allocate(wanted - size, last, table.blocks);
}

bool BlockManager::lacks_state(const BlockTable& table) const {
  if (!states_.is_used() || table.next_state != kZeroState || states_.n_free() > 0) return false;
  return table.state == kZeroState || states_.n_holders(table.state) > 1;
}

// In place where nobody else needs the state as it is: a step that fails ends its sequences.
void BlockManager::reserve_state(BlockTable& table) {
  if (!states_.is_used() || table.next_state != kZeroState) return;
  const bool is_own = table.state != kZeroState && states_.n_holders(table.state) == 1;
  table.next_state = is_own ? table.state : states_.take();
}

void BlockManager::advance_state(BlockTable& table) {
  if (table.next_state != table.state) states_.remove_holder(table.state);
  table.state = table.next_state;
  table.next_state = kZeroState;
}

BlockTable BlockManager::fork(const BlockTable& table, uint32_t n_tokens) {
  BlockTable forked;
  forked.blocks.assign(table.blocks.begin(), table.blocks.begin() + blocks_for(n_tokens));
  const auto n_blocks = static_cast<uint32_t>(forked.blocks.size());
  assert(table.n_registered <= n_blocks);
  forked.n_registered = table.n_registered;
  forked.prefix = table.prefix;
  for (const BlockId block : forked.blocks) use(block);
  forked.state = table.state;
  states_.add_holder(forked.state);
  return forked;
}

void BlockManager::register_full(BlockTable& table, std::span<const int32_t> tokens,
                                 uint32_t n_computed, std::string_view salt) {
  if (!options_.prefix_cache) return;
  const size_t size = options_.block_size;
  for (; (table.n_registered + 1) * size <= n_computed; ++table.n_registered) {
    const auto content = tokens.subspan(table.n_registered * size, size);
    table.prefix = cache_.insert({table.prefix, salt, content}, table.blocks[table.n_registered]);
  }
}

void BlockManager::release(BlockTable& table) {
  // From the end, so that of idle blocks the longest prefixes are given up first.
  for (auto it = table.blocks.rbegin(); it != table.blocks.rend(); ++it) drop(*it);
  if (table.next_state != table.state) states_.remove_holder(table.next_state);
  states_.remove_holder(table.state);
  table = {};
}

void BlockManager::discard(BlockTable& table) {
  for (const BlockId block : table.blocks) {
    if (cache_.contains(block)) cache_.remove(block);
  }
  release(table);
}

bool BlockManager::consistent(std::span<const BlockTable* const> tables) const {
  std::vector<uint32_t> users(options_.n_blocks, 0);
  for (const BlockTable* table : tables) {
    for (const BlockId block : table->blocks) ++users[static_cast<size_t>(block)];
  }
  uint32_t n_free = 0, n_idle = 0;
  for (BlockId block = 1; block < static_cast<BlockId>(options_.n_blocks); ++block) {
    const uint32_t n = users[static_cast<size_t>(block)];
    if (n != pool_.n_users(block)) return false;
    if (pool_.is_free(block) && (n != 0 || cache_.contains(block))) return false;
    if (!pool_.is_free(block) && n == 0 && !cache_.contains(block)) return false;
    n_free += pool_.is_free(block) ? 1 : 0;
    n_idle += !pool_.is_free(block) && n == 0 ? 1 : 0;
  }
  return users[0] == 0 && n_free == pool_.n_free() && n_idle == cache_.n_idle() &&
         states_consistent(tables);
}

bool BlockManager::states_consistent(std::span<const BlockTable* const> tables) const {
  if (!states_.is_used()) return true;
  std::vector<uint32_t> holders(options_.n_state_entries, 0);
  for (const BlockTable* table : tables) {
    ++holders[static_cast<size_t>(table->state)];
    if (table->next_state != table->state) ++holders[static_cast<size_t>(table->next_state)];
  }
  uint32_t n_free = 0;
  for (uint32_t entry = 1; entry < options_.n_state_entries; ++entry) {
    if (holders[entry] != states_.n_holders(static_cast<StateEntry>(entry))) return false;
    n_free += holders[entry] == 0 ? 1 : 0;
  }
  return n_free == states_.n_free();
}

}  // namespace bp::kv
