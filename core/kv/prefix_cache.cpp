#include "core/kv/prefix_cache.hpp"

#include <algorithm>
#include <cassert>

namespace bp::kv {

namespace {

// One round of the mixing function of wyhash: the 128-bit product folded.
uint64_t mix(uint64_t a, uint64_t b) {
  __extension__ using uint128 = unsigned __int128;
  const uint128 product =
      static_cast<uint128>(a ^ 0xa0761d6478bd642fULL) * (b ^ 0xe7037ed1a0b428dbULL);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace

uint64_t hash_content(const BlockContent& content) {
  uint64_t h = mix(content.parent, content.tokens.size());
  if (content.parent == kEmptyPrefix) h = mix(h, std::hash<std::string_view>{}(content.salt));
  for (const int32_t token : content.tokens) h = mix(h, static_cast<uint32_t>(token));
  return h;
}

PrefixCache::PrefixCache(uint32_t n_blocks, ContentHash hash) : hash_(hash), nodes_(n_blocks) {}

std::optional<PrefixCache::Match> PrefixCache::find(const BlockContent& content) const {
  const auto [begin, end] = by_hash_.equal_range(hash_(content));
  for (auto it = begin; it != end; ++it) {
    const Node& node = nodes_[index(it->second)];
    if (node.parent != content.parent || !std::ranges::equal(node.tokens, content.tokens)) continue;
    if (node.parent == kEmptyPrefix && node.salt != content.salt) continue;
    return Match{node.id, it->second};
  }
  return std::nullopt;
}

PrefixNode PrefixCache::insert(const BlockContent& content, BlockId block) {
  if (const auto known = find(content)) return known->node;
  assert(!contains(block));
  Node& node = nodes_[index(block)];
  node.id = ++last_id_;
  node.parent = content.parent;
  node.hash = hash_(content);
  if (content.parent == kEmptyPrefix) node.salt = content.salt;
  node.tokens.assign(content.tokens.begin(), content.tokens.end());
  by_hash_.emplace(node.hash, block);
  ++version_;
  return node.id;
}

void PrefixCache::set_idle(BlockId block) {
  Node& node = nodes_[index(block)];
  assert(node.id != 0 && !node.idle);
  node.idle = true;
  node.older = newest_;
  node.newer = kNullBlock;
  (newest_ == kNullBlock ? oldest_ : nodes_[index(newest_)].newer) = block;
  newest_ = block;
  ++n_idle_;
}

void PrefixCache::unlink(BlockId block) {
  Node& node = nodes_[index(block)];
  (node.older == kNullBlock ? oldest_ : nodes_[index(node.older)].newer) = node.newer;
  (node.newer == kNullBlock ? newest_ : nodes_[index(node.newer)].older) = node.older;
  node.older = node.newer = kNullBlock;
  node.idle = false;
  --n_idle_;
}

void PrefixCache::set_used(BlockId block) {
  assert(nodes_[index(block)].idle);
  unlink(block);
}

void PrefixCache::forget(BlockId block) {
  Node& node = nodes_[index(block)];
  const auto [begin, end] = by_hash_.equal_range(node.hash);
  by_hash_.erase(std::find_if(begin, end, [&](const auto& e) { return e.second == block; }));
  node = Node{};
  ++version_;
}

std::optional<BlockId> PrefixCache::evict() {
  if (oldest_ == kNullBlock) return std::nullopt;
  const BlockId block = oldest_;
  unlink(block);
  forget(block);
  return block;
}

void PrefixCache::remove(BlockId block) {
  assert(contains(block) && !nodes_[index(block)].idle);
  forget(block);
}

}  // namespace bp::kv
