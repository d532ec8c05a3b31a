#include "core/base/cpu_topology.hpp"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <tuple>

#include "backplane/cgroups.hpp"

namespace bp::base {

namespace {

namespace fs = std::filesystem;

// "0-3,8,10-11", as the kernel writes lists of processors.
std::vector<uint32_t> read_list(const fs::path& file) {
  std::vector<uint32_t> ids;
  std::ifstream in(file);
  for (std::string part; std::getline(in, part, ',');) {
    std::istringstream range(part);
    uint32_t first = 0, last = 0;
    char dash = 0;
    if (!(range >> first)) continue;
    if (!(range >> dash >> last)) last = first;
    for (uint32_t id = first; id <= last && id < CPU_SETSIZE; ++id) ids.push_back(id);
  }
  return ids;
}

uint32_t core_of(const fs::path& cpus, uint32_t id) {
  const fs::path topology = cpus / ("cpu" + std::to_string(id)) / "topology";
  for (const char* file : {"core_cpus_list", "thread_siblings_list"}) {
    const auto siblings = read_list(topology / file);
    if (!siblings.empty()) return std::ranges::min(siblings);
  }
  return id;
}

void set_nodes(const fs::path& nodes, std::vector<Cpu>& cpus) {
  for (const uint32_t node : read_list(nodes / "online")) {
    const auto members = read_list(nodes / ("node" + std::to_string(node)) / "cpulist");
    for (Cpu& cpu : cpus) {
      if (std::ranges::find(members, cpu.id) != members.end()) cpu.node = node;
    }
  }
}

uint32_t bounded(size_t n, double quota) {
  return static_cast<uint32_t>(std::min(static_cast<double>(n), std::max(std::ceil(quota), 1.0)));
}

}  // namespace

uint32_t CpuTopology::n_usable() const {
  return bounded(cpus.size(), quota);
}

uint32_t CpuTopology::n_cores() const {
  return bounded(n_all_cores(), quota);
}

uint32_t CpuTopology::n_all_cores() const {
  std::vector<uint32_t> cores;
  for (const Cpu& cpu : cpus) cores.push_back(cpu.core);
  std::ranges::sort(cores);
  const auto repeated = std::unique(cores.begin(), cores.end());
  return static_cast<uint32_t>(repeated - cores.begin());
}

std::vector<uint32_t> CpuTopology::placement(uint32_t n_workers) const {
  if (n_workers > cpus.size()) return {};
  struct Place {
    uint32_t sibling, node, core, id;  // sibling: how many of the core come before
    auto operator<=>(const Place&) const = default;
  };
  std::vector<Place> places;
  for (const Cpu& cpu : cpus) {
    const auto before = std::ranges::count(places, cpu.core, &Place::core);
    places.push_back({static_cast<uint32_t>(before), cpu.node, cpu.core, cpu.id});
  }
  std::ranges::sort(places);
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < n_workers; ++i) ids.push_back(places[i].id);
  return ids;
}

CpuTopology read_topology(const fs::path& root, std::span<const uint32_t> allowed) {
  CpuTopology topology;
  for (const uint32_t id : allowed) {
    topology.cpus.push_back({id, core_of(root / "sys/devices/system/cpu", id), 0});
  }
  if (topology.cpus.empty()) topology.cpus.push_back({});
  set_nodes(root / "sys/devices/system/node", topology.cpus);
  topology.quota = cpu_quota(root.string());
  return topology;
}

CpuTopology own_topology() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<uint32_t> allowed;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (uint32_t id = 0; id < CPU_SETSIZE; ++id) {
      if (CPU_ISSET(id, &set)) allowed.push_back(id);
    }
  }
  return read_topology("/", allowed);
}

}  // namespace bp::base
