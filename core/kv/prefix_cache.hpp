#pragma once
// Finds full blocks again by their content: the tokens of the block and all tokens before it.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/kv/block_pool.hpp"

namespace bp::kv {

// A prefix that is or was in the cache. Never reused, so equal nodes mean equal prefixes.
using PrefixNode = uint64_t;
inline constexpr PrefixNode kEmptyPrefix = 0;

// Content of one full block: what came before it, and its own tokens. The salt keeps the prefixes
// of different users apart; it counts where `parent` is the empty prefix.
struct BlockContent {
  PrefixNode parent = kEmptyPrefix;
  std::string_view salt;
  std::span<const int32_t> tokens;
};

using ContentHash = uint64_t (*)(const BlockContent&);
[[nodiscard]] uint64_t hash_content(const BlockContent& content);

// Blocks registered here are in use by sequences or idle. The least recently used idle block is
// given up first. A hash only finds candidates: parent, salt and tokens are always compared.
class PrefixCache {
 public:
  struct Match {
    PrefixNode node;
    BlockId block;
  };

  explicit PrefixCache(uint32_t n_blocks, ContentHash hash = hash_content);

  [[nodiscard]] std::optional<Match> find(const BlockContent& content) const;
  // Registers the block, which has users, unless the content is known already; answers the node of
  // the content either way. One block is registered at most once.
  PrefixNode insert(const BlockContent& content, BlockId block);
  [[nodiscard]] bool contains(BlockId block) const { return nodes_[index(block)].id != 0; }

  // The last user of a registered block left, or the first one came back.
  void set_idle(BlockId block);
  void set_used(BlockId block);
  // Forgets the least recently used idle block, which the caller then frees.
  std::optional<BlockId> evict();
  // Forgets a block that has users.
  void remove(BlockId block);

  [[nodiscard]] uint32_t n_idle() const { return n_idle_; }
  [[nodiscard]] uint32_t n_registered() const { return static_cast<uint32_t>(by_hash_.size()); }
  // Changes with every insertion and removal: an answer of find holds while it stays the same.
  [[nodiscard]] uint64_t version() const { return version_; }

 private:
  struct Node {
    PrefixNode id = 0;  // 0: the block is not registered
    PrefixNode parent = kEmptyPrefix;
    uint64_t hash = 0;
    std::string salt;
    std::vector<int32_t> tokens;
    BlockId older = kNullBlock, newer = kNullBlock;  // of the list of idle blocks
    bool idle = false;
  };

  static size_t index(BlockId block) { return static_cast<size_t>(block); }
  void forget(BlockId block);
  void unlink(BlockId block);

  ContentHash hash_;
  std::vector<Node> nodes_;  // by block
  std::unordered_multimap<uint64_t, BlockId> by_hash_;
  PrefixNode last_id_ = kEmptyPrefix;
  BlockId oldest_ = kNullBlock, newest_ = kNullBlock;
  uint32_t n_idle_ = 0;
  uint64_t version_ = 0;
};

}  // namespace bp::kv
