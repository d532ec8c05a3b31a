#pragma once
// Memory that KV caches of a process may come to fill, where the system counts it as free until
// they do. What they have filled since counts twice: models are loaded before they are asked much.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "backplane/backend.h"

namespace bp::runtime {

class KvPromises {
 public:
  // What a backend tells of memory, less what earlier caches were promised where it is theirs too.
  // [any-thread]
  [[nodiscard]] bp_memory_info left_of(bp_memory_info memory) const {
    if (memory.is_dedicated == 1) return memory;
    memory.available_bytes -= std::min<uint64_t>(memory.available_bytes, *total_);
    return memory;
  }
  // Promises a cache its bytes, but for what is gone from memory since it was allocated, as long as
  // what it returns lives. before, after: what the backend tells of memory. [any-thread]
  std::shared_ptr<const void> add(const bp_memory_info& before, const bp_memory_info& after,
                                  uint64_t n_bytes) {
    if (before.is_dedicated == 1) return nullptr;
    const uint64_t left = std::min(before.available_bytes, after.available_bytes);
    n_bytes -= std::min(n_bytes, before.available_bytes - left);
    *total_ += n_bytes;
    return {nullptr, [total = total_, n_bytes](const void*) { *total -= n_bytes; }};
  }

 private:
  std::shared_ptr<std::atomic<uint64_t>> total_ = std::make_shared<std::atomic<uint64_t>>(0);
};

}  // namespace bp::runtime
