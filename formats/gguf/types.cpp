#include "formats/gguf/types.hpp"

#include <array>
#include <cstring>

#include "backplane/format.h"

namespace bp::gguf {

namespace {

template <class From, class To>
void widen(const uint8_t* values, uint64_t n, void* out) {
  To* widened = static_cast<To*>(out);
  for (uint64_t i = 0; i < n; ++i) {
    From value;
    std::memcpy(&value, values + i * sizeof(From), sizeof value);
    widened[i] = static_cast<To>(value);
  }
}

template <class From, class To>
constexpr ScalarType make_scalar(uint32_t meta_type) {
  return {meta_type, sizeof(From), sizeof(To), widen<From, To>};
}

constexpr ScalarType kNotScalar = {0, 0, 0, nullptr};

constexpr std::array<ScalarType, 13> kScalarTypes = {{
    make_scalar<uint8_t, uint64_t>(BP_META_U64),
    make_scalar<int8_t, int64_t>(BP_META_I64),
    make_scalar<uint16_t, uint64_t>(BP_META_U64),
    make_scalar<int16_t, int64_t>(BP_META_I64),
    make_scalar<uint32_t, uint64_t>(BP_META_U64),
    make_scalar<int32_t, int64_t>(BP_META_I64),
    make_scalar<float, double>(BP_META_F64),
    make_scalar<uint8_t, uint8_t>(BP_META_BOOL),
    kNotScalar,  // string
    kNotScalar,  // array
    make_scalar<uint64_t, uint64_t>(BP_META_U64),
    make_scalar<int64_t, int64_t>(BP_META_I64),
    make_scalar<double, double>(BP_META_F64),
}};

struct GgmlType {
  const char* name;
  bp_dtype dtype;  // BP_DTYPE_NONE: a number that was used and is no more
};

constexpr std::array<GgmlType, 43> kGgmlTypes = {{
    {"F32", BP_DTYPE_F32},         {"F16", BP_DTYPE_F16},         {"Q4_0", BP_DTYPE_Q4_0},
    {"Q4_1", BP_DTYPE_Q4_1},       {"Q4_2", BP_DTYPE_NONE},       {"Q4_3", BP_DTYPE_NONE},
    {"Q5_0", BP_DTYPE_Q5_0},       {"Q5_1", BP_DTYPE_Q5_1},       {"Q8_0", BP_DTYPE_Q8_0},
    {"Q8_1", BP_DTYPE_Q8_1},       {"Q2_K", BP_DTYPE_Q2_K},       {"Q3_K", BP_DTYPE_Q3_K},
    {"Q4_K", BP_DTYPE_Q4_K},       {"Q5_K", BP_DTYPE_Q5_K},       {"Q6_K", BP_DTYPE_Q6_K},
    {"Q8_K", BP_DTYPE_Q8_K},       {"IQ2_XXS", BP_DTYPE_IQ2_XXS}, {"IQ2_XS", BP_DTYPE_IQ2_XS},
    {"IQ3_XXS", BP_DTYPE_IQ3_XXS}, {"IQ1_S", BP_DTYPE_IQ1_S},     {"IQ4_NL", BP_DTYPE_IQ4_NL},
    {"IQ3_S", BP_DTYPE_IQ3_S},     {"IQ2_S", BP_DTYPE_IQ2_S},     {"IQ4_XS", BP_DTYPE_IQ4_XS},
    {"I8", BP_DTYPE_I8},           {"I16", BP_DTYPE_I16},         {"I32", BP_DTYPE_I32},
    {"I64", BP_DTYPE_I64},         {"F64", BP_DTYPE_F64},         {"IQ1_M", BP_DTYPE_IQ1_M},
    {"BF16", BP_DTYPE_BF16},       {"Q4_0_4_4", BP_DTYPE_NONE},   {"Q4_0_4_8", BP_DTYPE_NONE},
    {"Q4_0_8_8", BP_DTYPE_NONE},   {"TQ1_0", BP_DTYPE_TQ1_0},     {"TQ2_0", BP_DTYPE_TQ2_0},
    {"IQ4_NL_4_4", BP_DTYPE_NONE}, {"IQ4_NL_4_8", BP_DTYPE_NONE}, {"IQ4_NL_8_8", BP_DTYPE_NONE},
    {"MXFP4", BP_DTYPE_MXFP4},     {"NVFP4", BP_DTYPE_NVFP4},     {"Q1_0", BP_DTYPE_Q1_0},
    {"Q2_0", BP_DTYPE_Q2_0},
}};

}  // namespace

const ScalarType* scalar_type(uint32_t value_type) {
  if (value_type >= kScalarTypes.size() || kScalarTypes[value_type].widen == nullptr) {
    return nullptr;
  }
  return &kScalarTypes[value_type];
}

bp_dtype dtype_from_ggml(uint32_t ggml_type) {
  return ggml_type < kGgmlTypes.size() ? kGgmlTypes[ggml_type].dtype : BP_DTYPE_NONE;
}

std::string ggml_type_name(uint32_t ggml_type) {
  if (ggml_type < kGgmlTypes.size()) return kGgmlTypes[ggml_type].name;
  return "number " + std::to_string(ggml_type);
}

}  // namespace bp::gguf
