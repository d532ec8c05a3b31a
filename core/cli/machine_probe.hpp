#pragma once
// What this machine can do at most, measured: the ceilings that `bench` shows results against.

#include <cstdint>
#include <string>

namespace bp::cli {

// Of memory that a probe takes while it runs, at most.
inline constexpr uint64_t kProbeBytes = uint64_t{512} << 20;  // past any last-level cache

struct Machine {
  std::string cpu;  // model name of the first CPU
  uint32_t n_threads = 0;
  // 0 where they were not measured.
  double bandwidth_gb_s = 0;  // reading memory beyond the caches, every cache line consumed
  double int8_tops = 0;       // multiply and add counted as two; dot products of the vector units
};

// Without its ceilings.
Machine name_machine(uint32_t n_threads);
// Takes about two seconds, with all threads busy.
Machine probe_machine(uint32_t n_threads);
// bandwidth_gb_s of now, in less than a second.
double probe_bandwidth_gb_s(uint32_t n_threads);

}  // namespace bp::cli
