#pragma once
// All that a pickle can build here: data, and descriptions of tensors. Nothing of it can run.

#include <cstdint>
#include <deque>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "backplane/dtype.h"

namespace bp::pytorch {

enum class Kind : uint8_t { kList, kTuple, kDict, kOrderedDict, kStorage, kTensor, kGlobal };

// A value that others can hold too: its place in the Arena, or for kGlobal in the allow-list.
struct Ref {
  Kind kind;
  uint32_t index;
};

// None, a boolean, a whole number, a float, a text within the pickle, or a Ref.
using Value = std::variant<std::monostate, bool, int64_t, double, std::string_view, Ref>;

struct Storage {
  std::string_view key;            // the name of its entry under data/
  bp_dtype dtype = BP_DTYPE_NONE;  // none: counted in bytes, the tensor says of what
  uint64_t n_elements = 0;         // or bytes
};

struct Tensor {
  Storage storage;
  bp_dtype dtype = BP_DTYPE_NONE;
  uint64_t offset = 0;  // in elements, as are the strides
  std::vector<uint64_t> dims;
  std::vector<uint64_t> strides;
};

using Members = std::vector<std::pair<Value, Value>>;

// Values refer to each other by index, so that cycles are nothing special. deques: what stands in
// them keeps its place.
struct Arena {
  std::deque<std::vector<Value>> sequences;  // lists and tuples
  std::deque<Members> dicts;
  std::deque<Storage> storages;
  std::deque<Tensor> tensors;
};

}  // namespace bp::pytorch
