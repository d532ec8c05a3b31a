// "bp.format/1" over Model.

#include "backplane/format.hpp"
#include "formats/safetensors/model.hpp"

namespace {

constexpr bp_format kFormat = bp::format_factory<bp::safetensors::Model>();

}  // namespace

BP_PLUGIN("safetensors", "0.1.0", {BP_FORMAT_ID, &kFormat});
