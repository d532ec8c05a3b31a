#include "backplane/reference/workers.hpp"

#include <algorithm>

namespace bp::reference {

namespace {

constexpr uint64_t kMinTeamCost = 100'000;

struct Job {
  const Workers::Range* fn;
  uint64_t n;
  Scratch* scratch;
};

void run_worker(void* argument, uint32_t worker, uint32_t n_workers, bp_team*) {
  const Job& job = *static_cast<const Job*>(argument);
  const uint64_t begin = job.n * worker / n_workers;
  const uint64_t end = job.n * (worker + 1) / n_workers;
  if (begin < end) (*job.fn)(begin, end, job.scratch[worker]);
}

}  // namespace

Workers::Workers(const Host& host, uint32_t n_threads, uint64_t n_floats, uint64_t n_doubles)
    : threads_(copy_growable(host.extension<bp_threads>(BP_THREADS_ID))) {
  uint32_t n = threads_.run_team == nullptr ? 1 : std::max(threads_.n_threads, 1u);
  if (n_threads != 0) n = std::min(n, n_threads);
  scratch_.resize(n);
  for (Scratch& scratch : scratch_) {
    scratch.floats.resize(n_floats);
    scratch.doubles.resize(n_doubles);
  }
}

void Workers::for_ranges(uint64_t n, uint64_t cost_per_item, const Range& fn) const {
  if (n == 0) return;
  if (scratch_.size() == 1 || n * cost_per_item < kMinTeamCost) return fn(0, n, scratch_[0]);
  Job job{&fn, n, scratch_.data()};
  threads_.run_team(threads_.user, static_cast<uint32_t>(scratch_.size()), run_worker, &job);
}

uint64_t Workers::scratch_bytes() const {
  return scratch_.size() *
         (scratch_[0].floats.size() * sizeof(float) + scratch_[0].doubles.size() * sizeof(double));
}

}  // namespace bp::reference
