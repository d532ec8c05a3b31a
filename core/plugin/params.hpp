#pragma once
// Typed key/value parameters on their way to a plugin (A14b): configuration and request fields.

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "backplane/plugin.h"

namespace bp::plugin {

using ParamValue = std::variant<int64_t, double, bool, std::string>;
using ParamMap = std::map<std::string, ParamValue>;

// The C form of a ParamMap, which must outlive it unchanged.
class CParams {
 public:
  explicit CParams(const ParamMap& map);
  CParams(const CParams&) = delete;
  CParams& operator=(const CParams&) = delete;

  [[nodiscard]] const bp_params* get() const { return &params_; }

 private:
  std::vector<bp_param> entries_;  // sorted by key, as the map is
  bp_params params_;
};

}  // namespace bp::plugin
