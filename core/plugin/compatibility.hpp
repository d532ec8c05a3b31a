#pragma once
// Which versions of the ABI work together (A8, A9).

#include <cstdint>
#include <string>

namespace bp::plugin {

struct AbiVersion {
  uint32_t major, minor;
};

// Empty when a plugin built for `plugin` may be loaded by a program that has `program`, else a
// sentence. Majors must be equal, and minors too while the major is 0.
std::string why_incompatible(AbiVersion plugin, AbiVersion program);

}  // namespace bp::plugin
