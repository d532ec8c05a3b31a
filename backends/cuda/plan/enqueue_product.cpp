// Products: the buffers that they need, and the stages before them.

#include <algorithm>

#include "backends/cuda/kernels/experts.hpp"
#include "backends/cuda/plan/planned_product.hpp"

namespace bp::cuda {

namespace {

// Keys of what is made of a buffer, told apart by their low bytes.
constexpr uint64_t kSortedKey = 0xff;

// Equal for products that take x in the same form, part by part, for any number of rows.
uint64_t prepared_key(const PlannedProduct& product) {
  const ProductShape& shape = product.shape;
  uint64_t family = 3;
  if (is_in_planes(shape.dtype)) family = 0;
  if (is_plain(shape.dtype)) family = 1;
  if (shape.dtype == BP_DTYPE_F16) family = 2;
  if (shape.dtype == BP_DTYPE_F32) family = 4;
  if (may_be_fp8(shape, product.device)) family = 5;
  if (shape.n_groups > 0) family |= shape.n_matrices > kMaxExperts ? 16 : 8;
  return uint64_t{shape.n_in} << 32 | uint64_t{product.n_parts} << 8 | family;
}

uint32_t floats_of_prepared(const PlannedProduct& product) {
  return product.n_parts * prepared_bytes(product.shape.n_in) / sizeof(float);
}

// The buffer with the prepared rows of x, and the stage that fills it where the op has none yet.
uint32_t add_prepared(Planner& planner, PlannedProduct product) {
  const bool has_gate = product.gate.b != kNoBuffer;
  if (product.shape.dtype == BP_DTYPE_F32 && !has_gate) return kNoBuffer;
  const uint64_t key = prepared_key(product);
  const uint32_t made = planner.made_of(product.x, key);
  if (made != kNoBuffer) return made;
  product.prepared = planner.temporary(product.x, floats_of_prepared(product));
  planner.set_made_of(product.x, key, product.prepared);
  planner.add([product](const StageContext& c) { return prepare_rows(c, product); });
  return product.prepared;
}

// Likewise with the sorted pairs of a group product.
uint32_t add_sorted(Planner& planner, PlannedProduct product) {
  const uint64_t n_bytes =
      sorted_bytes(product.shape, planner.most_rows(product.y), product.device);
  if (n_bytes == 0) return kNoBuffer;
  // Where ids is none, groups are matrices: those of x in its own rows.
  const uint32_t key_buffer = product.ids == kNoBuffer ? product.x : product.ids;
  const uint64_t key =
      uint64_t{product.shape.n_matrices} << 32 | uint64_t{product.shape.n_groups} << 8 | kSortedKey;
  const uint32_t made = planner.made_of(key_buffer, key);
  if (made != kNoBuffer) return made;
  product.sorted = planner.own_bytes(n_bytes);
  planner.set_made_of(key_buffer, key, product.sorted);
  planner.add([product](const StageContext& c) { return sort_pairs(c, product); });
  return product.sorted;
}

// Bytes that the products need to themselves while they run, those of the first for all.
void add_scratch(Planner& planner, Together& products) {
  PlannedProduct& first = products[0];
  ProductShape whole = first.shape;
  whole.n_columns = 0;
  const uint32_t most_rows = planner.most_rows(first.y);
  for (PlannedProduct& product : products) {
    whole.n_columns += product.shape.n_columns;
    product.slice = planner.scratch(Planner::Purpose::kSlice,
                                    slice_bytes(product.shape, most_rows, product.device));
  }
  uint64_t partial_bytes = most_partial_bytes(whole, most_rows, first.device);
  for (const PlannedProduct& product : products) {
    partial_bytes =
        std::max(partial_bytes, most_partial_bytes(product.shape, most_rows, product.device));
  }
  const uint32_t partials = planner.scratch(Planner::Purpose::kPartials, partial_bytes);
  for (PlannedProduct& product : products) product.partials = partials;
}

bool go_together(const PlannedProduct& a, const PlannedProduct& b) {
  return a.shape.dtype == b.shape.dtype &&
         may_be_fp8(a.shape, a.device) == may_be_fp8(b.shape, b.device);
}

// Neighbours that take the same kernels are launched together.
void add(Planner& planner, std::vector<PlannedProduct> products) {
  products.back().is_last_of_x = !planner.is_read_later(products.back().x);
  for (size_t i = 0; i < products.size();) {
    Together together;
    for (; i < products.size() && together.size() < kMaxParts; ++i) {
      if (!together.empty() && !go_together(products[i], together[0])) break;
      together.push_back(products[i]);
    }
    for (PlannedProduct& product : together) {
      product.prepared = add_prepared(planner, product);
      product.sorted = add_sorted(planner, product);
    }
    add_scratch(planner, together);
    planner.add([together](const StageContext& c) { return launch_products(c, together); });
  }
}

}  // namespace

Prepared prepare_for_consumer(Planner& planner, uint32_t y) {
  const bp_weight_part* matrix = planner.matrix_of_consumer(y);
  if (matrix == nullptr || matrix->dtype == BP_DTYPE_F32) return {};
  // A row's scale in 8-bit floats is not known before all of it is.
  if (may_be_fp8({matrix->dtype, planner.width(y)}, planner.device())) return {};
  PlannedProduct product;
  product.shape.dtype = matrix->dtype;
  product.shape.n_in = planner.width(y);
  const uint64_t key = prepared_key(product);
  if (planner.made_of(y, key) != kNoBuffer) return {};
  const uint32_t buffer = planner.temporary(y, floats_of_prepared(product));
  planner.set_made_of(y, key, buffer);
  return {buffer, matrix->dtype, product.shape.n_in};
}

XForm form_of(const Prepared& prepared, uint32_t n_rows, const DeviceInfo& device) {
  if (prepared.buffer == kNoBuffer) return XForm::kFloats;
  const ProductShape shape{prepared.dtype, prepared.n_in};
  return form_of(product_kind(shape, n_rows, device), prepared.dtype);
}

bool joins_gate(const ProductShape& shape, uint32_t n_rows, const DeviceInfo& device) {
  if (shape.dtype == BP_DTYPE_NONE) return false;
  return has_gated_kernel(product_kind(shape, n_rows, device));
}

void add_products(Planner& planner, std::span<const ProductSpec> specs) {
  std::vector<PlannedProduct> products;
  for (const ProductSpec& spec : specs) {
    PlannedProduct& product = products.emplace_back();
    product.device = planner.device();
    product.shape = {spec.weight->source().dtype, spec.weight->source().n_columns,
                     planner.width(spec.y)};
    product.x = spec.x;
    product.y = spec.y;
    product.weight = spec.weight;
    product.bias = spec.bias;
    product.first_bias = spec.first_bias;
    product.epilogue = {nullptr, spec.scale, spec.softcap, spec.activation};
    product.first_row = spec.first_row;
    product.gate = spec.gate;
    product.is_gate = spec.is_gate;
    product.gate_activation = spec.gate_activation;
  }
  add(planner, std::move(products));
}

void add_group_products(Planner& planner, std::span<const GroupProductSpec> specs) {
  std::vector<PlannedProduct> products;
  for (const GroupProductSpec& spec : specs) {
    PlannedProduct& product = products.emplace_back();
    product.device = planner.device();
    const uint32_t n_columns = planner.width(spec.y) / spec.n_groups;
    const SourceRows& source = spec.weight->source();
    product.shape = {source.dtype, source.n_columns, n_columns, spec.n_groups,
                     static_cast<uint32_t>(source.n_rows / n_columns)};
    product.x = spec.x;
    product.y = spec.y;
    product.ids = spec.ids;
    product.n_parts = planner.width(spec.x) == source.n_columns ? 1 : spec.n_groups;
    product.weight = spec.weight;
    product.bias = spec.bias;
    product.gate = spec.gate;
  }
  add(planner, std::move(products));
}

}  // namespace bp::cuda
