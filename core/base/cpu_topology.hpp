#pragma once
// The processors that this process may use: cores, hyperthreads, NUMA nodes and the cgroup's quota.

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace bp::base {

// A processor as the kernel numbers them: a hyperthread where the core has several.
struct Cpu {
  uint32_t id = 0;
  uint32_t core = 0;  // the lowest id of the processors that share the core
  uint32_t node = 0;  // NUMA
};

struct CpuTopology {
  std::vector<Cpu> cpus;  // of the affinity mask, by id; at least one
  double quota = 0;       // processors' time that the cgroup allows; infinite without a limit

  // Threads that run at once: processors, bounded by the quota rounded up. At least 1.
  [[nodiscard]] uint32_t n_usable() const;
  // Threads to compute with: one for each core, since hyperthreads share its arithmetic and its
  // path to memory; bounded likewise.
  [[nodiscard]] uint32_t n_cores() const;
  // Cores of the mask, whatever the quota.
  [[nodiscard]] uint32_t n_all_cores() const;
  // Where n workers go, one for each: cores node by node, then the cores' further hyperthreads.
  // Empty where there are more workers than processors.
  [[nodiscard]] std::vector<uint32_t> placement(uint32_t n_workers) const;
};

// From the files of /sys and /proc below `root`, for the processors `allowed`. What is missing
// there counts as one core each, one node and no limit.
CpuTopology read_topology(const std::filesystem::path& root, std::span<const uint32_t> allowed);

// Of this process, now.
CpuTopology own_topology();

}  // namespace bp::base
