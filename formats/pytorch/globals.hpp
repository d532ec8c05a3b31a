#pragma once
// The names that a pickle may call for, and nothing beside them.

#include <cstdint>
#include <optional>
#include <string_view>

#include "backplane/dtype.h"

namespace bp::pytorch {

enum class Role : uint8_t {
  kOrderedDict,
  kSize,              // of a tuple: the tuple
  kRebuildTensor,     // (storage, offset, size, stride, requires_grad, hooks[, metadata])
  kRebuildTensorV3,   // (untyped storage, offset, size, stride, requires_grad, hooks, dtype[, ...])
  kRebuildParameter,  // (tensor, requires_grad, hooks): the tensor
  kStorage,           // a class of storages, of the global's type or of bytes
  kDtype,
};

struct Global {
  std::string_view module;
  std::string_view name;
  Role role;
  bp_dtype dtype = BP_DTYPE_NONE;
};

// Its place in the list.
[[nodiscard]] std::optional<uint32_t> find_global(std::string_view module, std::string_view name);
// Precondition: a place in the list.
[[nodiscard]] const Global& global_at(uint32_t index);

}  // namespace bp::pytorch
