#pragma once
// The groups of processes (cgroups of Linux, version 2 and 1) that this one is in, and what limits
// them. Any thread; files are read anew by each call. `root` stands in place of /.

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

namespace bp {

// Of this process under a controller ("" for version 2): "/a/b", or "/".
[[nodiscard]] inline std::string cgroup_path(const std::string& root,
                                             const std::string& controller) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers.find("," + controller + ",") != std::string::npos) {
      return line.substr(second + 1);
    }
  }
  return "/";
}

// The least that `limit` says of a folder, from that of the process's own group under a controller
// up to the root's: limits of parents bind too.
template <class Limit>
[[nodiscard]] auto least_of_cgroups(const std::string& root, const std::string& controller,
                                    Limit limit) {
  const std::string folder = root + "/sys/fs/cgroup" + (controller.empty() ? "" : "/" + controller);
  auto least = limit(folder);
  std::string path = cgroup_path(root, controller);
  while (!path.empty() && path[0] == '/' && path != "/") {
    least = std::min(least, limit(folder + path));
    path.resize(path.rfind('/'));
  }
  return least;
}

// How many processors' time this process may take; infinity without a quota.
[[nodiscard]] inline double cpu_quota(const std::string& root) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const auto quota_v2 = [](const std::string& folder) {
    std::ifstream file(folder + "/cpu.max");
    std::string quota;
    double period = 0;
    if (!(file >> quota >> period) || quota == "max" || period <= 0) return kNone;
    return std::strtod(quota.c_str(), nullptr) / period;
  };
  const auto quota_v1 = [](const std::string& folder) {
    double quota = -1, period = 0;
    std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(folder + "/cpu.cfs_period_us") >> period;
    return quota > 0 && period > 0 ? quota / period : kNone;
  };
  return std::min(least_of_cgroups(root, "", quota_v2), least_of_cgroups(root, "cpu", quota_v1));
}

}  // namespace bp
