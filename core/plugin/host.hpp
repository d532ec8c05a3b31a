#pragma once
// The core's side of bp_host: logging and extensions for plugins.

#include <map>
#include <string>

#include "backplane/host.h"

namespace bp::plugin {

// Outlives every object that a plugin creates with it.
class HostServices {
 public:
  HostServices();
  HostServices(const HostServices&) = delete;
  HostServices& operator=(const HostServices&) = delete;

  // Before any plugin object exists. `extension` outlives the host.
  void offer(const std::string& id, const void* extension) { extensions_[id] = extension; }
  [[nodiscard]] const bp_host* get() const { return &host_; }

 private:
  static void log(void* user, uint32_t level, bp_str message);
  static const void* get_extension(void* user, const char* id);

  bp_host host_;
  std::map<std::string, const void*> extensions_;
};

}  // namespace bp::plugin
