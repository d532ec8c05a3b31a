#pragma once
// The host's team of threads, or the caller alone on a bare host.

#include <cstdint>
#include <functional>
#include <vector>

#include "backplane/ext/threads.h"
#include "backplane/plugin.hpp"

namespace bp::reference {

// One worker's memory, allocated once.
struct Scratch {
  std::vector<float> floats;
  std::vector<double> doubles;
};

class Workers {
 public:
  // fn must not throw.
  using Range = std::function<void(uint64_t begin, uint64_t end, Scratch& scratch)>;

  // n_threads 0: the whole team. Each worker has scratch of n_floats and n_doubles.
  Workers(const Host& host, uint32_t n_threads, uint64_t n_floats, uint64_t n_doubles);

  // Splits [0, n) evenly; the caller alone where n * cost_per_item (about one operation each) is
  // not worth waking others. [step]
  void for_ranges(uint64_t n, uint64_t cost_per_item, const Range& fn) const;

  [[nodiscard]] size_t n_workers() const { return scratch_.size(); }
  [[nodiscard]] uint64_t scratch_bytes() const;

 private:
  bp_threads threads_{};
  mutable std::vector<Scratch> scratch_;  // of each worker
};

}  // namespace bp::reference
