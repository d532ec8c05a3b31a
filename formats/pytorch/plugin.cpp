// "bp.format/1" over Model.

#include "backplane/format.hpp"
#include "formats/pytorch/model.hpp"

namespace {

constexpr bp_format kFormat = bp::format_factory<bp::pytorch::Model>();

}  // namespace

BP_PLUGIN("pytorch", "0.1.0", {BP_FORMAT_ID, &kFormat});
