#include "formats/gguf/tensors.hpp"

#include <algorithm>
#include <string>

#include "backplane/dtype.hpp"
#include "backplane/plugin.hpp"
#include "backplane/text.hpp"
#include "formats/gguf/types.hpp"
#include "formats/gguf/unique.hpp"

namespace bp::gguf {

namespace {

__extension__ typedef unsigned __int128 uint128;

std::string_view name_of(const TensorInfo& info) {
  return view(info.tensor.name);
}

class InfoReader {
 public:
  explicit InfoReader(Cursor& cursor) : cursor_(cursor), start_(cursor.offset()) {}

  Result<TensorInfo> read() {
    TensorInfo info = {};
    info.info_offset = start_;
    BP_ASSIGN(name_, cursor_.read_string(1, kMaxTensorNameBytes, "tensor name"));
    if (!is_text(name_)) return invalid("name is not UTF-8 without NUL");
    info.tensor.name = to_bp_str(name_);
    BP_TRY(read_dims(info.tensor));
    BP_TRY(read_type(info.tensor));
    BP_ASSIGN(info.tensor.offset, cursor_.read<uint64_t>("tensor offset"));
    return info;
  }

 private:
  // The file lists the innermost dimension first.
  Status read_dims(bp_tensor& tensor) {
    BP_ASSIGN(tensor.n_dims, cursor_.read<uint32_t>("number of dimensions"));
    if (tensor.n_dims > BP_MAX_DIMS) {
      return invalid(std::to_string(tensor.n_dims) + " dimensions; allowed are 0 to 4");
    }
    for (uint32_t i = 0; i < tensor.n_dims; ++i) {
      BP_ASSIGN(const uint64_t dim, cursor_.read<uint64_t>("dimension"));
      if (dim < 1 || dim > kMaxDim) {
        return invalid("dimension " + std::to_string(i) + " is " + std::to_string(dim) +
                       "; allowed are 1 to " + std::to_string(kMaxDim));
      }
      if (dim > kMaxElements / n_elements_) {
        return invalid("more than " + std::to_string(kMaxElements) + " elements");
      }
      n_elements_ *= dim;
      if (i == 0) row_elements_ = dim;
      tensor.dims[tensor.n_dims - 1 - i] = dim;
    }
    return {};
  }

  Status read_type(bp_tensor& tensor) {
    BP_ASSIGN(const uint32_t type, cursor_.read<uint32_t>("tensor type"));
    tensor.dtype = dtype_from_ggml(type);
    if (tensor.dtype == BP_DTYPE_NONE) {
      return cursor_.not_supported(start_, subject() + "unsupported type " + ggml_type_name(type));
    }
    const DtypeInfo& dtype = dtype_info(tensor.dtype);
    if (row_elements_ % dtype.block_elements != 0) {
      return invalid("rows of " + std::to_string(row_elements_) +
                     " elements are not divisible by " + std::to_string(dtype.block_elements) +
                     ", the block of " + ggml_type_name(type));
    }
    tensor.row_stride_bytes = row_bytes(tensor.dtype, row_elements_);
    tensor.n_bytes = row_bytes(tensor.dtype, n_elements_);
    return {};
  }

  [[nodiscard]] std::string subject() const { return "tensor " + quote(name_) + ": "; }
  [[nodiscard]] Status invalid(const std::string& rule) const {
    return cursor_.invalid(start_, subject() + rule);
  }

  Cursor& cursor_;
  uint64_t start_;
  std::string_view name_;
  uint64_t n_elements_ = 1;
  uint64_t row_elements_ = 1;
};

Status check_overlap(const Cursor& cursor, const std::vector<TensorInfo>& infos) {
  std::vector<const TensorInfo*> order;
  order.reserve(infos.size());
  for (const TensorInfo& info : infos) order.push_back(&info);
  std::sort(order.begin(), order.end(), [](const TensorInfo* a, const TensorInfo* b) {
    return a->tensor.offset < b->tensor.offset;
  });
  const auto overlap = [](const TensorInfo* a, const TensorInfo* b) {
    return a->tensor.offset + a->tensor.n_bytes > b->tensor.offset;
  };
  const auto found = std::adjacent_find(order.begin(), order.end(), overlap);
  if (found == order.end()) return {};
  const TensorInfo& first = **found;
  const TensorInfo& second = **(found + 1);
  return cursor.invalid(second.info_offset,
                        "tensor " + quote(name_of(second)) + ": data at " +
                            std::to_string(second.tensor.offset) + " overlaps that of " +
                            quote(name_of(first)) + ", which ends at " +
                            std::to_string(first.tensor.offset + first.tensor.n_bytes));
}

}  // namespace

Result<std::vector<TensorInfo>> read_tensor_infos(Cursor& cursor, uint64_t n_tensors) {
  std::vector<TensorInfo> infos;
  infos.reserve(n_tensors);
  cursor.limit_to(kMaxHeaderBytes, "header");
  for (uint64_t i = 0; i < n_tensors; ++i) {
    BP_ASSIGN(TensorInfo info, InfoReader(cursor).read());
    infos.push_back(info);
  }
  if (const auto i = find_duplicate(infos, name_of)) {
    return cursor.invalid(infos[*i].info_offset,
                          "tensor name " + quote(name_of(infos[*i])) + " stands twice");
  }
  return infos;
}

Status place_tensors(const Cursor& cursor, uint64_t data_start, uint64_t alignment,
                     uint64_t file_bytes, std::vector<TensorInfo>& infos) {
  for (TensorInfo& info : infos) {
    bp_tensor& tensor = info.tensor;
    const std::string subject = "tensor " + quote(name_of(info)) + ": ";
    if (tensor.offset % alignment != 0) {
      return cursor.invalid(info.info_offset, subject + "offset " + std::to_string(tensor.offset) +
                                                  " is not a multiple of the alignment " +
                                                  std::to_string(alignment));
    }
    const uint128 end = uint128{data_start} + tensor.offset + tensor.n_bytes;
    if (end > file_bytes) {
      return cursor.invalid(info.info_offset,
                            subject + std::to_string(tensor.n_bytes) + " bytes at data start " +
                                std::to_string(data_start) + " + offset " +
                                std::to_string(tensor.offset) + " end after the file's " +
                                std::to_string(file_bytes));
    }
    tensor.offset += data_start;
  }
  return check_overlap(cursor, infos);
}

}  // namespace bp::gguf
