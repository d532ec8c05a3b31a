#include "core/kv/prefix_cache.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <functional>

namespace bp::kv {

namespace {

// More buckets than blocks keep the watched ones apart from those that change.
constexpr uint32_t kFewestBuckets = 4096;

// One round of the mixing function of wyhash: the 128-bit product folded.
uint64_t mix(uint64_t a, uint64_t b) {
  __extension__ using uint128 = unsigned __int128;
  const uint128 product =
      static_cast<uint128>(a ^ 0xa0761d6478bd642fULL) * (b ^ 0xe7037ed1a0b428dbULL);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace

uint64_t hash_content(const BlockContent& content) {
  uint64_t h = mix(content.parent.id, content.tokens.size());
  if (content.parent == kEmptyPrefix) h = mix(h, std::hash<std::string_view>{}(content.salt));
  for (const int32_t token : content.tokens) h = mix(h, static_cast<uint32_t>(token));
  return h;
}

void PrefixMatch::clear() {
  nodes_.clear();
  next_hash_.reset();
  version_ = 0;
}

PrefixCache::PrefixCache(uint32_t n_blocks, ContentHash hash)
    : hash_(hash),
      nodes_(n_blocks),
      buckets_(std::bit_ceil(std::max(size_t{kFewestBuckets}, size_t{2} * n_blocks))) {}

std::optional<PrefixNode> PrefixCache::find(const BlockContent& content, uint64_t hash) const {
  BlockId block = buckets_[bucket(hash)].first;
  for (; block != kNullBlock; block = nodes_[index(block)].next_in_bucket) {
    const Node& node = nodes_[index(block)];
    if (node.hash != hash || node.parent != content.parent) continue;
    if (node.parent == kEmptyPrefix && node.salt != content.salt) continue;
    if (std::ranges::equal(node.tokens, content.tokens)) return PrefixNode{node.id, block};
  }
  return std::nullopt;
}

bool PrefixCache::reachable(const PrefixNode& node) const {
  const Node& known = nodes_[index(node.block)];
  return known.id == node.id && known.reachable;
}

void PrefixCache::note_change(uint64_t watched) {
  if (watched == version_) ++version_;
}

PrefixNode PrefixCache::insert(const BlockContent& content, BlockId block) {
  const uint64_t hash = hash_(content);
  if (const auto known = find(content, hash)) return *known;
  assert(!contains(block));
  Node& node = at(block);
  node.id = ++last_id_;
  node.parent = content.parent;
  node.hash = hash;
  if (content.parent == kEmptyPrefix) node.salt = content.salt;
  node.tokens.assign(content.tokens.begin(), content.tokens.end());
  node.reachable = content.parent == kEmptyPrefix || reachable(content.parent);
  if (node.reachable) link_child(block);
  Bucket& home = buckets_[bucket(hash)];
  node.next_in_bucket = home.first;
  home.first = block;
  ++n_registered_;
  note_change(home.watched);
  return {node.id, block};
}

void PrefixCache::update(PrefixMatch& match, std::span<const int32_t> tokens, size_t n_block_tokens,
                         std::string_view salt) {
  if (match.version_ == version_) return;
  auto& nodes = match.nodes_;
  for (; !nodes.empty() && !reachable(nodes.back()); nodes.pop_back()) match.next_hash_.reset();
  for (size_t begin = nodes.size() * n_block_tokens; begin < tokens.size();
       begin += n_block_tokens) {
    const BlockContent next{nodes.empty() ? kEmptyPrefix : nodes.back(), salt,
                            tokens.subspan(begin, n_block_tokens)};
    if (!match.next_hash_) match.next_hash_ = hash_(next);
    const auto found = find(next, *match.next_hash_);
    if (!found) {
      buckets_[bucket(*match.next_hash_)].watched = version_;
      break;
    }
    nodes.push_back(*found);
    match.next_hash_.reset();
  }
  if (!nodes.empty()) at(nodes.back().block).watched = version_;
  match.version_ = version_;
}

void PrefixCache::set_idle(BlockId block) {
  Node& node = at(block);
  assert(node.id != 0 && !node.idle);
  node.idle = true;
  node.older = newest_;
  node.newer = kNullBlock;
  (newest_ == kNullBlock ? oldest_ : at(newest_).newer) = block;
  newest_ = block;
  ++n_idle_;
}

void PrefixCache::unlink_idle(BlockId block) {
  Node& node = at(block);
  (node.older == kNullBlock ? oldest_ : at(node.older).newer) = node.newer;
  (node.newer == kNullBlock ? newest_ : at(node.newer).older) = node.older;
  node.older = node.newer = kNullBlock;
  node.idle = false;
  --n_idle_;
}

void PrefixCache::set_used(BlockId block) {
  assert(at(block).idle);
  unlink_idle(block);
}

void PrefixCache::unlink_hash(BlockId block) {
  BlockId* link = &buckets_[bucket(at(block).hash)].first;
  while (*link != block) link = &at(*link).next_in_bucket;
  *link = at(block).next_in_bucket;
}

// Nodes of one block have no parent that could be forgotten.
void PrefixCache::link_child(BlockId block) {
  Node& node = at(block);
  if (node.parent == kEmptyPrefix) return;
  Node& parent = at(node.parent.block);
  node.next_sibling = parent.first_child;
  if (node.next_sibling != kNullBlock) at(node.next_sibling).previous_sibling = block;
  parent.first_child = block;
}

void PrefixCache::unlink_child(BlockId block) {
  Node& node = at(block);
  if (!node.reachable || node.parent == kEmptyPrefix) return;
  const bool first = node.previous_sibling == kNullBlock;
  (first ? at(node.parent.block).first_child : at(node.previous_sibling).next_sibling) =
      node.next_sibling;
  if (node.next_sibling != kNullBlock) {
    at(node.next_sibling).previous_sibling = node.previous_sibling;
  }
}

// Happens to a node once, so all of it costs no more than the insertions did.
void PrefixCache::orphan_descendants(BlockId block) {
  orphans_.assign(1, block);
  while (!orphans_.empty()) {
    Node& parent = at(orphans_.back());
    orphans_.pop_back();
    for (BlockId next = parent.first_child; next != kNullBlock;) {
      Node& child = at(next);
      orphans_.push_back(next);
      next = child.next_sibling;
      child.reachable = false;
      child.previous_sibling = child.next_sibling = kNullBlock;
      note_change(child.watched);
    }
    parent.first_child = kNullBlock;
  }
}

void PrefixCache::forget(BlockId block) {
  orphan_descendants(block);
  unlink_child(block);
  unlink_hash(block);
  note_change(at(block).watched);
  at(block) = Node{};
  --n_registered_;
}

std::optional<BlockId> PrefixCache::evict() {
  if (oldest_ == kNullBlock) return std::nullopt;
  const BlockId block = oldest_;
  unlink_idle(block);
  forget(block);
  return block;
}

void PrefixCache::remove(BlockId block) {
  assert(contains(block) && !at(block).idle);
  forget(block);
}

}  // namespace bp::kv
