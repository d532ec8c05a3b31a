#pragma once
// Which experts a row goes to, in memory that each thread keeps: a step allocates none.

#include "backplane/reference/routing.hpp"

namespace bp::cpu {

inline void route_row(const bp_attr_route& attributes, const float* logits, const float* bias,
                      uint32_t n_experts, float* ids, float* shares) {
  static thread_local reference::RouteRoom room;
  reference::route(attributes, logits, bias, n_experts, room, ids, shares);
}

}  // namespace bp::cpu
