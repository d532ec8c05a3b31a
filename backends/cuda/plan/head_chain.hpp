#pragma once
// Ops between qkv's products and attention that one launch can do (kernels/heads.hpp).

#include <map>
#include <string_view>
#include <vector>

#include "backplane/program_view.hpp"

namespace bp::cuda {

inline constexpr uint32_t kQNormOfQkv = 6;  // a weight slot; that of k follows

// Nobody reads the queries and keys that these ops hand on but the next of them.
struct HeadChain {
  const bp_op* qkv = nullptr;   // whose norms of q and k are part of it, or null
  const bp_op* rope = nullptr;  // or null
  const bp_op* attention = nullptr;
  uint32_t q = 0, k = 0;  // values as they were before, of qkv's products or of any other op
};

// The chains of a program: a rope or norms of qkv, before an attention that writes its cache.
class HeadChains {
 public:
  explicit HeadChains(const ProgramView& program);

  [[nodiscard]] const HeadChain* of(const bp_op& op) const;

 private:
  void add(const bp_op& attention);
  // The op of a kind that makes the chain's q and k in heads as attention's, for one reader alone.
  [[nodiscard]] const bp_op* maker(const HeadChain& chain, std::string_view kind) const;

  std::vector<const bp_op*> makers_;  // of each value
  std::vector<uint32_t> n_readers_;
  std::map<const bp_op*, HeadChain> chains_;  // of each op that is a part of one
};

}  // namespace bp::cuda
