// bench_probe [THREADS]: one line of JSON with what the machine gives at this moment: read rate,
// int8 peak of the vector units, and the time of a barrier. Takes two seconds.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "core/base/cpu_topology.hpp"
#include "core/cli/machine_probe.hpp"
#include "core/plugin/thread_team.hpp"

namespace {

constexpr int kBarriers = 20000;
constexpr int kRounds = 5;

// Nanoseconds of a barrier of all workers; the best round counts.
double barrier_ns(uint32_t n_threads) {
  bp::plugin::ThreadTeam team(n_threads);
  const bp_threads& threads = *team.extension();
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    const auto work = [](void* argument, uint32_t, uint32_t, bp_team* running) {
      const auto& own = *static_cast<const bp_threads*>(argument);
      for (int i = 0; i < kBarriers; ++i) own.barrier(running);
    };
    threads.run_team(threads.user, n_threads, work, const_cast<bp_threads*>(&threads));
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / kBarriers);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const uint32_t n_threads =
      argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : bp::base::own_topology().n_cores();
  if (n_threads == 0) {
    std::fprintf(stderr, "usage: bench_probe [THREADS]\n");
    return 2;
  }
  const bp::cli::Machine machine = bp::cli::probe_machine(n_threads);
  std::printf(
      "{\"cpu\": \"%s\", \"threads\": %u, \"read_gb_s\": %.2f, \"int8_tops\": %.3f, "
      "\"barrier_ns\": %.0f}\n",
      machine.cpu.c_str(), n_threads, machine.bandwidth_gb_s, machine.int8_tops,
      barrier_ns(n_threads));
}
