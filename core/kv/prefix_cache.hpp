#pragma once
// Finds full blocks again by their content: the tokens of the block and all tokens before it.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/kv/block_pool.hpp"

namespace bp::kv {

// A prefix that is or was in the cache, and the block that its last tokens are or were in. Ids are
// never reused, so equal nodes mean equal prefixes.
struct PrefixNode {
  uint64_t id = 0;
  BlockId block = kNullBlock;

  friend bool operator==(const PrefixNode&, const PrefixNode&) = default;
};
inline constexpr PrefixNode kEmptyPrefix{};

// Content of one full block: what came before it, and its own tokens. The salt keeps the prefixes
// of different users apart; it counts where `parent` is the empty prefix.
struct BlockContent {
  PrefixNode parent;
  std::string_view salt;
  std::span<const int32_t> tokens;
};

using ContentHash = uint64_t (*)(const BlockContent&);
[[nodiscard]] uint64_t hash_content(const BlockContent& content);

// The longest prefix of one sequence's tokens that the cache had when it was asked last. Asking
// again costs what changed about it since, not its length. Filled by PrefixCache::update.
class PrefixMatch {
 public:
  // Leading blocks that were found.
  [[nodiscard]] size_t n_blocks() const { return nodes_.size(); }
  [[nodiscard]] const std::vector<PrefixNode>& nodes() const { return nodes_; }
  // Forgets the tokens too: the next update may be for others.
  void clear();

 private:
  friend class PrefixCache;
  std::vector<PrefixNode> nodes_;
  std::optional<uint64_t> next_hash_;  // of the content after those nodes
  uint64_t version_ = 0;               // of the cache; 0: was not asked yet
};

// Blocks registered here are in use by sequences or idle. The least recently used idle block is
// given up first. A hash only finds candidates: parent, salt and tokens are always compared.
//
// A node is reachable while all nodes before it are registered. It never becomes so again, since a
// prefix that comes back is another node; then what stood behind the old one is not found, and
// only waits to be given up.
class PrefixCache {
 public:
  explicit PrefixCache(uint32_t n_blocks, ContentHash hash = hash_content);

  [[nodiscard]] std::optional<PrefixNode> find(const BlockContent& content) const {
    return find(content, hash_(content));
  }
  // Registers the block, which has users, unless the content is known already; answers the node of
  // the content either way. One block is registered at most once.
  PrefixNode insert(const BlockContent& content, BlockId block);
  [[nodiscard]] bool contains(BlockId block) const { return nodes_[index(block)].id != 0; }

  // Brings the match up to date with the cache: what finding the blocks of `tokens` one after the
  // other would give. Between clears a match is only asked for the same tokens; they are whole
  // blocks of n_block_tokens each.
  void update(PrefixMatch& match, std::span<const int32_t> tokens, size_t n_block_tokens,
              std::string_view salt);
  // While it stays the same, so do all matches that were updated since it changed.
  [[nodiscard]] uint64_t version() const { return version_; }

  // The last user of a registered block left, or the first one came back.
  void set_idle(BlockId block);
  void set_used(BlockId block);
  // Forgets the least recently used idle block, which the caller then frees.
  std::optional<BlockId> evict();
  // Forgets a block that has users.
  void remove(BlockId block);

  [[nodiscard]] uint32_t n_idle() const { return n_idle_; }
  [[nodiscard]] uint32_t n_registered() const { return n_registered_; }

 private:
  struct Node {
    uint64_t id = 0;  // 0: the block is not registered
    PrefixNode parent;
    uint64_t hash = 0;
    uint64_t watched = 0;  // version at which a match ended here
    std::string salt;
    std::vector<int32_t> tokens;
    BlockId next_in_bucket = kNullBlock;
    BlockId older = kNullBlock, newer = kNullBlock;  // of the list of idle blocks
    BlockId first_child = kNullBlock;                // of reachable nodes
    BlockId previous_sibling = kNullBlock, next_sibling = kNullBlock;
    bool idle = false;
    bool reachable = false;
  };
  struct Bucket {
    BlockId first = kNullBlock;
    uint64_t watched = 0;  // version at which a match lacked content of such a hash
  };

  static size_t index(BlockId block) { return static_cast<size_t>(block); }
  Node& at(BlockId block) { return nodes_[index(block)]; }
  [[nodiscard]] size_t bucket(uint64_t hash) const { return hash & (buckets_.size() - 1); }
  [[nodiscard]] std::optional<PrefixNode> find(const BlockContent& content, uint64_t hash) const;
  [[nodiscard]] bool reachable(const PrefixNode& node) const;
  void note_change(uint64_t watched);
  void forget(BlockId block);
  void unlink_idle(BlockId block);
  void unlink_hash(BlockId block);
  void link_child(BlockId block);
  void unlink_child(BlockId block);
  void orphan_descendants(BlockId block);

  ContentHash hash_;
  std::vector<Node> nodes_;      // by block
  std::vector<Bucket> buckets_;  // by the low bits of the hash; a power of two
  std::vector<BlockId> orphans_;
  uint64_t last_id_ = 0;
  uint64_t version_ = 1;
  BlockId oldest_ = kNullBlock, newest_ = kNullBlock;
  uint32_t n_idle_ = 0;
  uint32_t n_registered_ = 0;
};

}  // namespace bp::kv
