#include "core/base/cpu_count.hpp"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>

namespace bp::base {

namespace {

// The cgroup path of this process under a controller ("" for v2), from /proc/self/cgroup.
std::string cgroup_path(const std::string& controller) {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool v2 = controller.empty() && controllers == ",,";
    const bool v1 =
        !controller.empty() && controllers.find("," + controller + ",") != std::string::npos;
    if (v2 || v1) return line.substr(second + 1);
  }
  return "/";
}

double quota_v2(const std::string& folder) {
  std::ifstream in(folder + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(in >> quota >> period) || quota == "max" || period <= 0) {
    return std::numeric_limits<double>::infinity();
  }
  return std::strtod(quota.c_str(), nullptr) / period;
}

double quota_v1(const std::string& folder) {
  double quota = -1, period = 0;
  std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
  std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  return quota > 0 && period > 0 ? quota / period : std::numeric_limits<double>::infinity();
}

// The tightest quota from the process's own group up to the root, where limits of parents bind too.
template <class ReadQuota>
double tightest(const std::string& root, std::string path, ReadQuota read_quota) {
  double least = read_quota(root);
  while (!path.empty() && path != "/") {
    least = std::min(least, read_quota(root + path));
    path.resize(path.rfind('/'));
  }
  return least;
}

}  // namespace

uint32_t available_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  const double v2 = tightest("/sys/fs/cgroup", cgroup_path(""), quota_v2);
  const double v1 = tightest("/sys/fs/cgroup/cpu", cgroup_path("cpu"), quota_v1);
  const double quota = std::ceil(std::min(v1, v2));
  const double bounded = std::min(static_cast<double>(std::max(n, 1)), std::max(quota, 1.0));
  return static_cast<uint32_t>(bounded);
}

}  // namespace bp::base
