#pragma once
// The numbers that GGUF gives to metadata value types and to tensor element types.

#include <cstdint>
#include <string>

#include "backplane/dtype.h"

namespace bp::gguf {

inline constexpr uint32_t kValueU32 = 4;
inline constexpr uint32_t kValueBool = 7;
inline constexpr uint32_t kValueString = 8;
inline constexpr uint32_t kValueArray = 9;

// A fixed-size metadata value and what it becomes in memory.
struct ScalarType {
  uint32_t meta_type;     // BP_META_*
  uint32_t file_bytes;    // of one value in the file
  uint32_t memory_bytes;  // of one value after widening
  void (*widen)(const uint8_t* values, uint64_t n, void* out);
};

// nullptr for strings, arrays and unknown numbers.
[[nodiscard]] const ScalarType* scalar_type(uint32_t value_type);

// BP_DTYPE_NONE for types that are unknown, removed from the format or not tensor data.
[[nodiscard]] bp_dtype dtype_from_ggml(uint32_t ggml_type);

// "Q4_0_4_4", or "number 99".
[[nodiscard]] std::string ggml_type_name(uint32_t ggml_type);

}  // namespace bp::gguf
