#pragma once
// The groups of processes that this one is in, and what limits them.

#include <algorithm>
#include <string>

namespace bp::cpu {

// Of this process under a controller ("" for version 2): "/a/b", or "/".
[[nodiscard]] std::string cgroup_path(const std::string& proc, const std::string& controller);

// The least that `limit` says of a folder, from that of the path up to the root's: limits of
// parents bind too.
template <class Limit>
auto least_of_cgroups(const std::string& root, std::string path, Limit limit) {
  auto least = limit(root);
  while (!path.empty() && path[0] == '/' && path != "/") {
    least = std::min(least, limit(root + path));
    path.resize(path.rfind('/'));
  }
  return least;
}

}  // namespace bp::cpu
