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

// A selection's numbers, which fit what it selects from.
struct Kept {
  uint64_t every, first, n;

  // Of n_units in all.
  [[nodiscard]] uint64_t of(uint64_t n_units) const { return n_units / every * n; }
};

Result<Kept> kept_of(const Selection& selection, uint64_t n_units, const Scope& scope) {
  BP_ASSIGN(const int64_t every, selection.every.integer(scope));
  BP_ASSIGN(const int64_t first, selection.first.integer(scope));
  BP_ASSIGN(const int64_t n, selection.n.integer(scope));
  const bool inside = every > 0 && first >= 0 && n > 0 && first <= every && n <= every - first;
  if (!inside || n_units % static_cast<uint64_t>(every) != 0) {
    return selection.place.error(
        fmt::format("{} of every {} from {} do not fit {}", n, every, first, n_units));
  }
  return Kept{static_cast<uint64_t>(every), static_cast<uint64_t>(first), static_cast<uint64_t>(n)};
}

// Appends the units of `unit_bytes` that are kept.
void select(const Kept& kept, std::span<const uint8_t> from, uint64_t unit_bytes, Bytes& out) {
  const uint64_t group_bytes = kept.every * unit_bytes;
  for (uint64_t at = 0; at + group_bytes <= from.size(); at += group_bytes) {
    const uint8_t* first = from.data() + at + kept.first * unit_bytes;
    out.insert(out.end(), first, first + kept.n * unit_bytes);
  }
}

// In float32, of F32, F16 or BF16.
Bytes negative_exp(bp_dtype dtype, std::span<const uint8_t> from) {
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

Bytes transposed(std::span<const uint8_t> from, uint64_t n_matrices, uint64_t n_rows,
                 uint64_t n_columns, uint64_t element_bytes) {
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

Status check_alike(std::span<const bp_tensor* const> parts) {
  const bp_tensor& first = *parts[0];
  for (const bp_tensor* part : parts) {
    if (part->dtype != first.dtype || !std::ranges::equal(dims_of(*part), dims_of(first))) {
      return invalid_argument("tensors to be stacked differ in type or shape");
    }
  }
  return {};
}

Bytes gather(std::span<const TensorData> parts) {
  Bytes bytes;
  for (const TensorData& part : parts) {
    const auto dims = dims_of(*part.info);
    const uint64_t row = row_bytes(part.info->dtype, dims.back());
    const uint64_t n_rows = product(dims.first(dims.size() - 1));
    bytes.reserve(parts.size() * n_rows * row);
    for (uint64_t r = 0; r < n_rows; ++r) {
      const auto* first = static_cast<const uint8_t*>(part.data) + r * part.row_stride_bytes;
      bytes.insert(bytes.end(), first, first + row);
    }
  }
  return bytes;
}

// The bytes of the parts one after another: in place where there is one without gaps.
std::span<const uint8_t> joined(std::span<const TensorData> parts, Bytes& storage) {
  const TensorData& first = parts[0];
  const uint64_t row = row_bytes(first.info->dtype, dims_of(*first.info).back());
  if (parts.size() == 1 && first.row_stride_bytes == row) {
    const uint64_t n_rows = product(dims_of(*first.info).first(first.info->n_dims - 1));
    return {static_cast<const uint8_t*>(first.data), n_rows * row};
  }
  storage = gather(parts);
  return storage;
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

Result<ArrangedShape> arranged_shape(const Arrangement& arrangement,
                                     std::span<const bp_tensor* const> parts, const Scope& scope) {
  BP_TRY(check_alike(parts));
  const bp_dtype dtype = parts[0]->dtype;
  const auto found = dims_of(*parts[0]);
  if (found.empty()) return invalid_argument("a tensor without dimensions cannot be rearranged");
  const bool by_element = arrangement.transpose || arrangement.columns;
  if (by_element && is_block_quantised(dtype)) {
    return invalid_argument(fmt::format("elements of {} cannot be rearranged", dtype_name(dtype)));
  }
  ArrangedShape shape{dtype, {found.begin(), found.end()}};
  std::vector<uint64_t>& dims = shape.dims;
  if (arrangement.stack) dims.insert(dims.begin(), parts.size());
  if (arrangement.transpose) {
    if (found.size() < 2) return invalid_argument("a row cannot be transposed");
    std::swap(dims[dims.size() - 2], dims.back());
  }
  if (!arrangement.rows.empty()) {
    const uint64_t n_rows = product(std::span(dims).first(dims.size() - 1));
    uint64_t n_kept = 0;
    for (const Selection& selection : arrangement.rows) {
      BP_ASSIGN(const Kept kept, kept_of(selection, n_rows, scope));
      n_kept += kept.of(n_rows);
    }
    dims = {n_kept, dims.back()};
  }
  if (arrangement.columns) {
    BP_ASSIGN(const Kept kept, kept_of(*arrangement.columns, dims.back(), scope));
    dims.back() = kept.of(dims.back());
  }
  if (arrangement.negative_exp) {
    if (dtype != BP_DTYPE_F32 && dtype != BP_DTYPE_F16 && dtype != BP_DTYPE_BF16) {
      return invalid_argument(fmt::format("there is no negative_exp of {}", dtype_name(dtype)));
    }
    shape.dtype = BP_DTYPE_F32;
  }
  return shape;
}

Result<ArrangedTensor> arrange(const Arrangement& arrangement, std::span<const TensorData> parts,
                               const Scope& scope) {
  std::vector<const bp_tensor*> infos;
  for (const TensorData& part : parts) infos.push_back(part.info);
  BP_ASSIGN(ArrangedShape shape, arranged_shape(arrangement, infos, scope));
  const bp_dtype dtype = infos[0]->dtype;
  const auto found = dims_of(*infos[0]);
  const uint64_t element_bytes = dtype_info(dtype).block_bytes;
  uint64_t width = found.back(), n_rows = parts.size() * product(found.first(found.size() - 1));
  Bytes bytes;
  std::span<const uint8_t> from = joined(parts, bytes);
  const auto become = [&](Bytes made) {
    bytes = std::move(made);
    from = bytes;
  };
  if (arrangement.transpose) {
    const uint64_t height = found[found.size() - 2];
    become(transposed(from, n_rows / height, height, width, element_bytes));
    n_rows = n_rows / height * width;
    width = height;
  }
  if (!arrangement.rows.empty()) {
    Bytes kept_rows;
    for (const Selection& selection : arrangement.rows) {
      BP_ASSIGN(const Kept kept, kept_of(selection, n_rows, scope));
      select(kept, from, row_bytes(dtype, width), kept_rows);
    }
    become(std::move(kept_rows));
  }
  if (arrangement.columns) {
    BP_ASSIGN(const Kept kept, kept_of(*arrangement.columns, width, scope));
    Bytes kept_columns;
    select(kept, from, element_bytes, kept_columns);
    become(std::move(kept_columns));
  }
  if (arrangement.negative_exp) become(negative_exp(dtype, from));
  if (bytes.empty()) bytes.assign(from.begin(), from.end());
  return ArrangedTensor{std::move(shape), std::make_shared<const Bytes>(std::move(bytes))};
}

}  // namespace bp::model
