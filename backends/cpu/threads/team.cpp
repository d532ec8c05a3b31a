#include "backends/cpu/threads/team.hpp"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "backends/cpu/threads/own_team.hpp"
#include "backplane/cgroups.hpp"
#include "backplane/wait.hpp"

namespace bp::cpu {

namespace {

uint32_t affinity_count() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<uint32_t>(std::max(1, CPU_COUNT(&set)));
}

}  // namespace

uint32_t usable_processors(const std::string& root) {
  const double n = std::min<double>(affinity_count(), std::ceil(cpu_quota(root)));
  return std::max(1u, static_cast<uint32_t>(n));
}

std::shared_ptr<Team> Team::create(const Host& host, uint32_t n_threads) {
  const bp_threads offered = copy_growable(host.extension<bp_threads>(BP_THREADS_ID));
  if (offered.run_team != nullptr && offered.barrier != nullptr &&
      offered.parallel_for != nullptr && offered.n_threads > 0) {
    return std::make_shared<Team>(offered, nullptr);
  }
  auto own = std::make_unique<OwnTeam>(n_threads > 0 ? n_threads : usable_processors());
  const bp_threads threads = own->threads();
  return std::make_shared<Team>(threads, std::move(own));
}

Team::Team(const bp_threads& threads, std::unique_ptr<OwnTeam> own)
    : threads_(threads), n_cores_(usable_processors()), own_(std::move(own)) {}
Team::~Team() = default;

uint32_t Team::wait(bp_team* team, uint32_t worker, const std::atomic<uint32_t>& word,
                    uint32_t old) const {
  if (threads_.wait != nullptr) return threads_.wait(team, worker, &bare(word), old);
  return wait_for_change(word, old, has_core_each() ? kSpinInStep : kSpinInStep.zero());
}

void Team::wake(bp_team* team, std::atomic<uint32_t>& word) const {
  wake(team, word, has_core_each() ? threads_.n_threads : n_cores_ - 1);
}

void Team::wake_all(bp_team* team, std::atomic<uint32_t>& word) const {
  wake(team, word, threads_.n_threads);
}

void Team::wake(bp_team* team, std::atomic<uint32_t>& word, uint32_t n) const {
  if (threads_.wait != nullptr) return threads_.wake(team, &bare(word), n);
  notify(word, n >= threads_.n_threads ? kAllWaiting : n);
}

}  // namespace bp::cpu
