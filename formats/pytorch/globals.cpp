#include "formats/pytorch/globals.hpp"

#include <array>

namespace bp::pytorch {

namespace {

// Unsigned integers and booleans hold indices and packed bits, and pass as types of their size.
// Types that nothing here can hold (complex and quantised numbers) are not on the list.
constexpr std::array<Global, 32> kGlobals = {{
    {"collections", "OrderedDict", Role::kOrderedDict},
    {"torch", "Size", Role::kSize},
    {"torch._utils", "_rebuild_tensor_v2", Role::kRebuildTensor},
    {"torch._utils", "_rebuild_tensor_v3", Role::kRebuildTensorV3},
    {"torch._utils", "_rebuild_parameter", Role::kRebuildParameter},
    {"torch", "FloatStorage", Role::kStorage, BP_DTYPE_F32},
    {"torch", "HalfStorage", Role::kStorage, BP_DTYPE_F16},
    {"torch", "BFloat16Storage", Role::kStorage, BP_DTYPE_BF16},
    {"torch", "DoubleStorage", Role::kStorage, BP_DTYPE_F64},
    {"torch", "LongStorage", Role::kStorage, BP_DTYPE_I64},
    {"torch", "IntStorage", Role::kStorage, BP_DTYPE_I32},
    {"torch", "ShortStorage", Role::kStorage, BP_DTYPE_I16},
    {"torch", "CharStorage", Role::kStorage, BP_DTYPE_I8},
    {"torch", "ByteStorage", Role::kStorage, BP_DTYPE_U8},
    {"torch", "BoolStorage", Role::kStorage, BP_DTYPE_U8},
    {"torch.storage", "UntypedStorage", Role::kStorage},
    {"torch", "UntypedStorage", Role::kStorage},
    {"torch", "float32", Role::kDtype, BP_DTYPE_F32},
    {"torch", "float16", Role::kDtype, BP_DTYPE_F16},
    {"torch", "bfloat16", Role::kDtype, BP_DTYPE_BF16},
    {"torch", "float64", Role::kDtype, BP_DTYPE_F64},
    {"torch", "float8_e4m3fn", Role::kDtype, BP_DTYPE_F8_E4M3},
    {"torch", "float8_e5m2", Role::kDtype, BP_DTYPE_F8_E5M2},
    {"torch", "int64", Role::kDtype, BP_DTYPE_I64},
    {"torch", "int32", Role::kDtype, BP_DTYPE_I32},
    {"torch", "int16", Role::kDtype, BP_DTYPE_I16},
    {"torch", "int8", Role::kDtype, BP_DTYPE_I8},
    {"torch", "uint8", Role::kDtype, BP_DTYPE_U8},
    {"torch", "bool", Role::kDtype, BP_DTYPE_U8},
    {"torch", "uint16", Role::kDtype, BP_DTYPE_I16},
    {"torch", "uint32", Role::kDtype, BP_DTYPE_I32},
    {"torch", "uint64", Role::kDtype, BP_DTYPE_I64},
}};

}  // namespace

std::optional<uint32_t> find_global(std::string_view module, std::string_view name) {
  for (uint32_t i = 0; i < kGlobals.size(); ++i) {
    if (kGlobals[i].name == name && kGlobals[i].module == module) return i;
  }
  return std::nullopt;
}

const Global& global_at(uint32_t index) {
  return kGlobals[index];
}

}  // namespace bp::pytorch
