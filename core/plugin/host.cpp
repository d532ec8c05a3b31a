#include "core/plugin/host.hpp"

#include <spdlog/spdlog.h>

#include "backplane/plugin.hpp"

namespace bp::plugin {

HostServices::HostServices() : host_(make_growable<bp_host>()) {
  host_.abi_minor = BP_ABI_MINOR;
  host_.user = this;
  host_.log = log;
  host_.get_extension = get_extension;
}

void HostServices::log(void*, uint32_t level, bp_str message) {
  static constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                          spdlog::level::warn, spdlog::level::err};
  spdlog::log(kLevels[level < BP_LOG_ERROR ? level : BP_LOG_ERROR], "{}", view(message));
}

const void* HostServices::get_extension(void* user, const char* id) {
  const auto& extensions = static_cast<HostServices*>(user)->extensions_;
  const auto found = extensions.find(id == nullptr ? "" : id);
  return found == extensions.end() ? nullptr : found->second;
}

}  // namespace bp::plugin
