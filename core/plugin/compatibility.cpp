#include "core/plugin/compatibility.hpp"

#include <fmt/format.h>

namespace bp::plugin {

std::string why_incompatible(AbiVersion plugin, AbiVersion program) {
  const std::string versions =
      fmt::format("it was built for ABI {}.{}, this program has {}.{}", plugin.major, plugin.minor,
                  program.major, program.minor);
  if (plugin.major != program.major) return versions;
  if (program.major > 0 || plugin.minor == program.minor) return {};
  return versions +
         "; while the ABI's major is 0 the minor must be equal: build the plugin again with this "
         "SDK";
}

}  // namespace bp::plugin
