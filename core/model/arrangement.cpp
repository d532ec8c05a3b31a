#include "core/model/arrangement.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "backplane/dtype.hpp"
#include "backplane/half.hpp"

namespace bp::model {

namespace {

using Bytes = std::vector<uint8_t>;

Result<PlacedExpression> member(const base::Yaml& node, const char* key) {
  BP_ASSIGN(auto found, PlacedExpression::find(node, key));
  if (!found) return node.error(fmt::format("needs the key {}", key));
  return *std::move(found);
}

Result<Selection> parse_selection(const base::Yaml& node) {
  BP_TRY(node.expect_keys({"every", "first", "n"}));
  BP_ASSIGN(PlacedExpression every, member(node, "every"));
  BP_ASSIGN(PlacedExpression first, member(node, "first"));
  BP_ASSIGN(PlacedExpression n, member(node, "n"));
  return Selection{node, std::move(every), std::move(first), std::move(n)};
}

// One selection or a list of them.
Result<std::vector<Selection>> parse_selections(const base::Yaml& node) {
  std::vector<base::Yaml> items = {node};
  if (node.is_list()) {
    BP_ASSIGN(items, node.items());
  }
  std::vector<Selection> out;
  for (const base::Yaml& item : items) {
    BP_ASSIGN(Selection selection, parse_selection(item));
    out.push_back(std::move(selection));
  }
  return out;
}

// Units of `unit_bytes`, of which a selection keeps some.
Result<Bytes> select(const Selection& selection, const Bytes& from, uint64_t unit_bytes,
                     const Scope& scope) {
  if (unit_bytes == 0) return selection.place.error("there are no rows");
  const uint64_t n_units = from.size() / unit_bytes;
  BP_ASSIGN(const int64_t every, selection.every.integer(scope));
  BP_ASSIGN(const int64_t first, selection.first.integer(scope));
  BP_ASSIGN(const int64_t n, selection.n.integer(scope));
  const bool inside = every > 0 && first >= 0 && n > 0 && first <= every && n <= every - first;
  if (!inside || n_units % static_cast<uint64_t>(every) != 0) {
    return selection.place.error(
        fmt::format("{} of every {} from {} do not fit {}", n, every, first, n_units));
  }
  const uint64_t n_groups = n_units / static_cast<uint64_t>(every);
  const uint64_t kept_bytes = static_cast<uint64_t>(n) * unit_bytes;
  Bytes out(n_groups * kept_bytes);
  for (uint64_t g = 0; g < n_groups; ++g) {
    const uint64_t at = g * static_cast<uint64_t>(every) + static_cast<uint64_t>(first);
    std::memcpy(out.data() + g * kept_bytes, from.data() + at * unit_bytes, kept_bytes);
  }
  return out;
}

Result<Bytes> select_all(const std::vector<Selection>& selections, const Bytes& from,
                         uint64_t unit_bytes, const Scope& scope) {
  Bytes out;
  for (const Selection& selection : selections) {
    BP_ASSIGN(const Bytes kept, select(selection, from, unit_bytes, scope));
    out.insert(out.end(), kept.begin(), kept.end());
  }
  return out;
}

// In float32.
Result<Bytes> negative_exp(bp_dtype dtype, const Bytes& from) {
  if (dtype != BP_DTYPE_F32 && dtype != BP_DTYPE_F16 && dtype != BP_DTYPE_BF16) {
    return invalid_argument(fmt::format("there is no negative_exp of {}", dtype_name(dtype)));
  }
  const uint64_t size = dtype_info(dtype).block_bytes, n = from.size() / size;
  Bytes out(n * sizeof(float));
  for (uint64_t i = 0; i < n; ++i) {
    float x = 0;
    uint16_t half = 0;
    std::memcpy(size == sizeof x ? static_cast<void*>(&x) : &half, from.data() + i * size, size);
    if (dtype != BP_DTYPE_F32) x = dtype == BP_DTYPE_F16 ? f16_to_f32(half) : bf16_to_f32(half);
    x = -std::exp(x);
    std::memcpy(out.data() + i * sizeof x, &x, sizeof x);
  }
  return out;
}

Bytes transposed(const Bytes& from, uint64_t n_matrices, uint64_t n_rows, uint64_t n_columns,
                 uint64_t element_bytes) {
  Bytes out(from.size());
  for (uint64_t m = 0; m < n_matrices; ++m) {
    const uint64_t base = m * n_rows * n_columns;
    for (uint64_t r = 0; r < n_rows; ++r) {
      for (uint64_t c = 0; c < n_columns; ++c) {
        std::memcpy(out.data() + (base + c * n_rows + r) * element_bytes,
                    from.data() + (base + r * n_columns + c) * element_bytes, element_bytes);
      }
    }
  }
  return out;
}

uint64_t product(std::span<const uint64_t> dims) {
  uint64_t n = 1;
  for (const uint64_t dim : dims) n *= dim;  // of a tensor whose bytes are in memory
  return n;
}

Result<Bytes> gather(std::span<const TensorData> parts) {
  Bytes bytes;
  const bp_tensor& first = *parts[0].info;
  for (const TensorData& part : parts) {
    const auto dims = dims_of(*part.info);
    if (part.info->dtype != first.dtype || !std::ranges::equal(dims, dims_of(first))) {
      return invalid_argument("tensors to be stacked differ in type or shape");
    }
    const uint64_t row = row_bytes(part.info->dtype, dims.back());
    const uint64_t n_rows = product(dims.first(dims.size() - 1));
    const size_t at = bytes.size();
    bytes.resize(at + n_rows * row);
    for (uint64_t r = 0; r < n_rows; ++r) {
      std::memcpy(bytes.data() + at + r * row,
                  static_cast<const uint8_t*>(part.data) + r * part.row_stride_bytes, row);
    }
  }
  return bytes;
}

}  // namespace

Result<Arrangement> Arrangement::parse(const base::Yaml& node) {
  BP_TRY(node.expect_keys({"name", "stack", "transpose", "rows", "columns", "negative_exp"}));
  Arrangement out;
  BP_ASSIGN(out.stack, PlacedExpression::find(node, "stack"));
  if (const auto flag = node.find("transpose")) {
    BP_ASSIGN(out.transpose, flag->as_bool());
  }
  if (const auto rows = node.find("rows")) {
    BP_ASSIGN(out.rows, parse_selections(*rows));
  }
  if (const auto columns = node.find("columns")) {
    BP_ASSIGN(out.columns, parse_selection(*columns));
  }
  if (const auto flag = node.find("negative_exp")) {
    BP_ASSIGN(out.negative_exp, flag->as_bool());
  }
  return out;
}

Result<ArrangedTensor> arrange(const Arrangement& arrangement, std::span<const TensorData> parts,
                               const Scope& scope) {
  bp_dtype dtype = parts[0].info->dtype;
  const auto found = dims_of(*parts[0].info);
  if (found.empty()) return invalid_argument("a tensor without dimensions cannot be rearranged");
  std::vector<uint64_t> dims(found.begin(), found.end());
  if (arrangement.stack) dims.insert(dims.begin(), parts.size());
  const bool by_element = arrangement.transpose || arrangement.columns;
  if (by_element && is_block_quantised(dtype)) {
    return invalid_argument(fmt::format("elements of {} cannot be rearranged", dtype_name(dtype)));
  }
  BP_ASSIGN(Bytes bytes, gather(parts));
  const uint64_t element_bytes = dtype_info(dtype).block_bytes;
  if (arrangement.transpose) {
    if (found.size() < 2) return invalid_argument("a row cannot be transposed");
    const size_t n = dims.size();
    const uint64_t n_matrices = product(std::span(dims).first(n - 2));
    bytes = transposed(bytes, n_matrices, dims[n - 2], dims[n - 1], element_bytes);
    std::swap(dims[n - 2], dims[n - 1]);
  }
  if (!arrangement.rows.empty()) {
    const uint64_t row = row_bytes(dtype, dims.back());
    BP_ASSIGN(bytes, select_all(arrangement.rows, bytes, row, scope));
    dims = {bytes.size() / row, dims.back()};
  }
  if (arrangement.columns) {
    const uint64_t n_rows = product(std::span(dims).first(dims.size() - 1));
    BP_ASSIGN(bytes, select(*arrangement.columns, bytes, element_bytes, scope));
    dims.back() = bytes.size() / element_bytes / std::max<uint64_t>(n_rows, 1);
  }
  if (arrangement.negative_exp) {
    BP_ASSIGN(bytes, negative_exp(dtype, bytes));
    dtype = BP_DTYPE_F32;
  }
  return ArrangedTensor{dtype, dims, std::make_shared<const Bytes>(std::move(bytes))};
}

}  // namespace bp::model
