#include "core/plugin/params.hpp"

#include "backplane/plugin.hpp"

namespace bp::plugin {

namespace {

bp_param to_c_param(const std::string& key, const ParamValue& value) {
  bp_param p{};
  p.key = to_bp_str(key);
  if (const auto* i = std::get_if<int64_t>(&value)) {
    p.type = BP_TYPE_INT;
    p.i = *i;
    p.d = static_cast<double>(*i);
  } else if (const auto* d = std::get_if<double>(&value)) {
    p.type = BP_TYPE_FLOAT;
    p.d = *d;
    p.i = static_cast<int64_t>(*d);
  } else if (const auto* b = std::get_if<bool>(&value)) {
    p.type = BP_TYPE_BOOL;
    p.i = *b ? 1 : 0;
  } else {
    p.type = BP_TYPE_STRING;
    p.s = to_bp_str(std::get<std::string>(value));
  }
  return p;
}

}  // namespace

CParams::CParams(const ParamMap& map) : params_(make_growable<bp_params>()) {
  entries_.reserve(map.size());
  for (const auto& [key, value] : map) entries_.push_back(to_c_param(key, value));
  params_.n_params = static_cast<uint32_t>(entries_.size());
  params_.params = entries_.data();
}

}  // namespace bp::plugin
