#pragma once
// A case of the op attention, from its heads.

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sdk/conformance/support/ops/op_case.hpp"

namespace bp::test {

struct AttentionHeads {
  std::string name;
  uint32_t n_heads, n_kv_heads, head_dim, v_head_dim;
  std::vector<conformance::CaseSequence> sequences;
  std::map<std::string, std::string> more = {};  // attributes
  bool has_sinks = false, has_slopes = false;
};

inline conformance::OpCase attention_case(const AttentionHeads& heads) {
  conformance::OpCase c;
  c.name = heads.name;
  c.sequences = heads.sequences;
  c.attributes = heads.more;
  c.attributes["n_heads"] = std::to_string(heads.n_heads);
  c.attributes["n_kv_heads"] = std::to_string(heads.n_kv_heads);
  c.attributes["head_dim"] = std::to_string(heads.head_dim);
  c.attributes["v_head_dim"] = std::to_string(heads.v_head_dim);
  c.attributes["scale"] = std::to_string(1 / std::sqrt(static_cast<float>(heads.head_dim)));
  c.attributes["kv_slot"] = "0";
  c.with = {"k", "v"};
  if (heads.has_sinks) c.with.emplace_back("sinks");
  if (heads.has_slopes) c.with.emplace_back("slopes");
  return c;
}

}  // namespace bp::test
