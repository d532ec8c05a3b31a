#include "formats/safetensors/dtypes.hpp"

#include <algorithm>
#include <array>

namespace bp::safetensors {

namespace {

struct NamedType {
  std::string_view name;
  bp_dtype dtype;
};

// Unsigned integers and booleans hold indices and packed bits, and pass as types of their size.
constexpr std::array<NamedType, 15> kTypes = {{
    {"F32", BP_DTYPE_F32},
    {"F16", BP_DTYPE_F16},
    {"BF16", BP_DTYPE_BF16},
    {"F64", BP_DTYPE_F64},
    {"F8_E4M3", BP_DTYPE_F8_E4M3},
    {"F8_E5M2", BP_DTYPE_F8_E5M2},
    {"I8", BP_DTYPE_I8},
    {"U8", BP_DTYPE_U8},
    {"BOOL", BP_DTYPE_U8},
    {"I16", BP_DTYPE_I16},
    {"U16", BP_DTYPE_I16},
    {"I32", BP_DTYPE_I32},
    {"U32", BP_DTYPE_I32},
    {"I64", BP_DTYPE_I64},
    {"U64", BP_DTYPE_I64},
}};

}  // namespace

bp_dtype dtype_from_name(std::string_view name) {
  const auto found = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const NamedType& type) { return type.name == name; });
  return found == kTypes.end() ? BP_DTYPE_NONE : found->dtype;
}

}  // namespace bp::safetensors
