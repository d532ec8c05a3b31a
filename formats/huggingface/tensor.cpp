#include "formats/huggingface/tensor.hpp"

#include <algorithm>

#include "backplane/dtype.hpp"
#include "backplane/plugin.hpp"
#include "backplane/text.hpp"

namespace bp::huggingface {

Result<bp_tensor> describe_tensor(const std::string& path, std::string_view name, bp_dtype dtype,
                                  std::span<const uint64_t> dims) {
  if (dims.size() > BP_MAX_DIMS) {
    return unsupported(shortened_path(path) + ": tensor " + quote(name) + ": " +
                       std::to_string(dims.size()) + " dimensions; supported are 4");
  }
  bp_tensor tensor{};
  tensor.name = to_bp_str(name);
  tensor.dtype = dtype;
  tensor.n_dims = static_cast<uint32_t>(std::max<size_t>(dims.size(), 1));
  tensor.dims[0] = 1;
  std::copy(dims.begin(), dims.end(), tensor.dims);
  tensor.row_stride_bytes = row_bytes(dtype, tensor.dims[tensor.n_dims - 1]);
  tensor.offset = BP_NO_OFFSET;
  tensor.n_bytes = tensor.row_stride_bytes;
  for (uint32_t d = 0; d + 1 < tensor.n_dims; ++d) tensor.n_bytes *= tensor.dims[d];
  return tensor;
}

Status check_rows(std::span<const bp_tensor> tensors, uint64_t tensor, uint64_t first, uint64_t n) {
  if (tensor >= tensors.size()) {
    return invalid_argument("tensor " + std::to_string(tensor) + " of " +
                            std::to_string(tensors.size()));
  }
  const bp_tensor& t = tensors[tensor];
  const uint64_t rows = t.n_bytes / t.row_stride_bytes;
  if (first <= rows && n <= rows - first) return {};
  return invalid_argument("tensor " + quote(view(t.name)) + " has " + std::to_string(rows) +
                          " rows, asked for " + std::to_string(n) + " from " +
                          std::to_string(first));
}

}  // namespace bp::huggingface
