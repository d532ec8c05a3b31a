#include "formats/pytorch/rebuild.hpp"

#include <utility>

#include "backplane/dtype.hpp"
#include "backplane/text.hpp"
#include "formats/huggingface/limits.hpp"

namespace bp::pytorch {

namespace {

template <class T>
const T* as(const Value& value) {
  return std::get_if<T>(&value);
}

const Ref* ref_of(const Value& value, Kind kind) {
  const Ref* ref = as<Ref>(value);
  return ref != nullptr && ref->kind == kind ? ref : nullptr;
}

const Global* global_of(const Value& value) {
  const Ref* ref = ref_of(value, Kind::kGlobal);
  return ref == nullptr ? nullptr : &global_at(ref->index);
}

template <class T>
Value add(std::deque<T>& list, Kind kind, T item) {
  list.push_back(std::move(item));
  return Ref{kind, static_cast<uint32_t>(list.size() - 1)};
}

// A tuple of whole numbers of 0 to max.
Result<std::vector<uint64_t>> numbers_of(const Value& value, uint64_t max, const Arena& arena) {
  const Ref* tuple = ref_of(value, Kind::kTuple);
  if (tuple == nullptr) return invalid_argument("a tensor's size and stride must be tuples");
  std::vector<uint64_t> numbers;
  for (const Value& item : arena.sequences[tuple->index]) {
    const int64_t* number = as<int64_t>(item);
    if (number == nullptr || *number < 0 || static_cast<uint64_t>(*number) > max) {
      return invalid_argument("a tensor's size or stride is no whole number of 0 to " +
                              std::to_string(max));
    }
    numbers.push_back(static_cast<uint64_t>(*number));
    if (numbers.size() > 64) return invalid_argument("a tensor of more than 64 dimensions");
  }
  return numbers;
}

// Every element lies in the storage, and there are no more of them than it has.
Status check_extent(const Tensor& tensor, uint64_t n_stored) {
  uint64_t n = 1, last = tensor.offset;
  bool fits = true;
  for (size_t d = 0; d < tensor.dims.size(); ++d) {
    const uint64_t dim = tensor.dims[d];
    uint64_t span = 0;
    fits = fits && !__builtin_mul_overflow(n, dim, &n) && n <= huggingface::kMaxElements &&
           !__builtin_mul_overflow(dim == 0 ? 0 : dim - 1, tensor.strides[d], &span) &&
           !__builtin_add_overflow(last, span, &last);
  }
  if (!fits) return invalid_argument("a tensor's size or stride is too large");
  if (n == 0 || (n <= n_stored && last < n_stored)) return {};
  return invalid_argument("a tensor of " + std::to_string(n) + " elements up to number " +
                          std::to_string(last) + " does not lie in its storage of " +
                          std::to_string(n_stored));
}

Result<Value> rebuild_tensor(std::span<const Value> arguments, bool is_v3, Arena& arena) {
  const size_t n_required = is_v3 ? 7 : 6;
  if (arguments.size() < n_required || arguments.size() > n_required + 1) {
    return invalid_argument("a tensor is rebuilt of " + std::to_string(arguments.size()) +
                            " values");
  }
  const Ref* storage = ref_of(arguments[0], Kind::kStorage);
  const int64_t* offset = as<int64_t>(arguments[1]);
  const bool is_typed =
      as<bool>(arguments[4]) != nullptr && ref_of(arguments[5], Kind::kOrderedDict) != nullptr;
  if (storage == nullptr || offset == nullptr || *offset < 0 || !is_typed) {
    return invalid_argument("a tensor is rebuilt of values of other types");
  }
  Tensor tensor;
  tensor.storage = arena.storages[storage->index];
  tensor.dtype = tensor.storage.dtype;
  if (is_v3) {
    const Global* dtype = global_of(arguments[6]);
    if (dtype == nullptr || dtype->role != Role::kDtype || tensor.dtype != BP_DTYPE_NONE) {
      return invalid_argument("a tensor of an untyped storage must name its type");
    }
    tensor.dtype = dtype->dtype;
  }
  if (tensor.dtype == BP_DTYPE_NONE) return invalid_argument("a tensor without a type");
  tensor.offset = static_cast<uint64_t>(*offset);
  BP_ASSIGN(tensor.dims, numbers_of(arguments[2], huggingface::kMaxDim, arena));
  BP_ASSIGN(tensor.strides, numbers_of(arguments[3], huggingface::kMaxElements, arena));
  if (tensor.dims.size() != tensor.strides.size()) {
    return invalid_argument("a tensor's size and stride have unequal lengths");
  }
  const uint64_t element = is_v3 ? dtype_info(tensor.dtype).block_bytes : 1;
  BP_TRY(check_extent(tensor, tensor.storage.n_elements / element));
  return add(arena.tensors, Kind::kTensor, std::move(tensor));
}

}  // namespace

Result<Value> call(const Global& global, std::span<const Value> arguments, Arena& arena) {
  switch (global.role) {
    case Role::kOrderedDict:
      if (!arguments.empty()) return invalid_argument("an OrderedDict is called with arguments");
      return add(arena.dicts, Kind::kOrderedDict, {});
    case Role::kSize:
      if (arguments.size() != 1 || ref_of(arguments[0], Kind::kTuple) == nullptr) {
        return invalid_argument("torch.Size is called with other than a tuple");
      }
      return arguments[0];
    case Role::kRebuildTensor:
    case Role::kRebuildTensorV3:
      return rebuild_tensor(arguments, global.role == Role::kRebuildTensorV3, arena);
    case Role::kRebuildParameter:
      if (arguments.size() != 3 || ref_of(arguments[0], Kind::kTensor) == nullptr) {
        return invalid_argument("a parameter is rebuilt of other than a tensor");
      }
      return arguments[0];
    case Role::kStorage:
    case Role::kDtype:
      break;
  }
  return invalid_argument(std::string(global.module) + "." + std::string(global.name) +
                          " is called, which is no function");
}

Result<Value> load_storage(std::span<const Value> id, Arena& arena) {
  const auto* what = id.size() == 5 ? as<std::string_view>(id[0]) : nullptr;
  if (what == nullptr || *what != "storage") {
    return invalid_argument("a persistent id names no storage");
  }
  const Global* type = global_of(id[1]);
  const auto* key = as<std::string_view>(id[2]);
  const int64_t* n = as<int64_t>(id[4]);
  if (type == nullptr || type->role != Role::kStorage || key == nullptr || n == nullptr ||
      as<std::string_view>(id[3]) == nullptr) {
    return invalid_argument("a storage is named by values of other types");
  }
  if (*n < 0 || static_cast<uint64_t>(*n) > huggingface::kMaxElements) {
    return invalid_argument("a storage of " + std::to_string(*n) + " elements");
  }
  return add(arena.storages, Kind::kStorage, Storage{*key, type->dtype, static_cast<uint64_t>(*n)});
}

}  // namespace bp::pytorch
