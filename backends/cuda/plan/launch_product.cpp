#include <algorithm>

#include "backends/cuda/device/matrix_library.hpp"
#include "backends/cuda/kernels/embed.hpp"
#include "backends/cuda/kernels/experts.hpp"
#include "backends/cuda/kernels/prepare.hpp"
#include "backends/cuda/plan/planned_product.hpp"

namespace bp::cuda {

namespace {

ProductParams params_of(const StageContext& c, const PlannedProduct& product) {
  ProductParams p;
  p.weight = product.weight->matrix();
  p.x = c.rows(product.x);
  p.y = c.rows(product.y);
  if (product.prepared != kNoBuffer) {
    p.prepared = {c.bytes(product.prepared), prepared_bytes(product.shape.n_in)};
  }
  p.epilogue = product.epilogue;
  if (product.bias != nullptr) p.epilogue.bias = product.bias->floats() + product.first_bias;
  p.n_rows = c.n_rows(product.y);
  p.n_columns = product.shape.n_columns;
  p.first_column = product.first_row;
  p.n_groups = product.shape.n_groups;
  p.n_matrices = product.shape.n_matrices;
  p.x_is_shared = product.n_parts == 1 ? 1 : 0;
  if (product.ids != kNoBuffer) p.ids = c.rows(product.ids);
  return p;
}

// Rows of 8-bit floats, and the scales behind them.
PreparedRows fp8_rows(const StageContext& c, const PlannedProduct& product) {
  return {c.bytes(product.prepared), fp8_row_bytes(product.shape.n_in)};
}
float* fp8_scales(const PreparedRows& rows, uint32_t n_rows) {
  return reinterpret_cast<float*>(rows.data + n_rows * rows.stride_bytes);
}

ProductsParams params_of(const StageContext& c, const Together& products) {
  ProductsParams all;
  all.n_parts = static_cast<uint32_t>(products.size());
  for (uint32_t i = 0; i < all.n_parts; ++i) all.parts[i] = params_of(c, products[i]);
  return all;
}

// A gate and what it is applied to become one part.
ProductsParams gated_params_of(const StageContext& c, const Together& products) {
  ProductsParams all = params_of(c, products);
  if (!products[0].is_gate) return all;
  ProductParams& gate = all.parts[0];
  const ProductParams& up = all.parts[1];
  gate.up = up.weight.data + up.first_column * up.weight.row_bytes;
  gate.up_bias = up.epilogue.bias;
  gate.gate_activation = products[0].gate_activation;
  all.n_parts = 1;
  return all;
}

Status launch_skinny(const StageContext& c, const Together& products) {
  ProductsParams all = gated_params_of(c, products);
  const auto kernel = skinny_kernel(products[0].shape.dtype, all.parts[0].n_rows);
  return c.stream.launch(kernel, lay_out_parts(all, 0, skinny_geometry), all);
}

Status launch_rows(const StageContext& c, const Together& products, bool is_packed) {
  const ProductShape& shape = products[0].shape;
  ProductsParams all = gated_params_of(c, products);
  for (ProductParams& p : all.parts) p.n_slices = product_slices(shape.dtype, shape.n_in);
  const uint32_t n_rows = shape.n_groups > 0 ? 1 : all.parts[0].n_rows;
  const auto kernel = is_packed ? packed_rows_kernel(shape.dtype, n_rows)
                                : product_rows_kernel(shape.dtype, n_rows);
  const uint32_t dimension = shape.n_groups > 0 ? 1 : 0;
  return c.stream.launch(kernel, lay_out_parts(all, dimension, product_geometry), all);
}

// The shape of all parts side by side.
ProductShape whole_shape(const ProductsParams& all, const ProductShape& of_one) {
  ProductShape shape = of_one;
  shape.dtype = all.parts[0].weight.dtype;
  shape.n_columns = 0;
  for (uint32_t i = 0; i < all.n_parts; ++i) shape.n_columns += all.parts[i].n_columns;
  return shape;
}

Status launch_tiles(const StageContext& c, const PlannedProduct& first, ProductsParams& all,
                    TileBy by = TileBy::kHalves) {
  const ProductShape shape = whole_shape(all, first.shape);
  const uint32_t n_rows = all.parts[0].n_rows;
  const uint32_t n_splits =
      first.partials == kNoBuffer ? 1 : tile_splits(shape, n_rows, first.device);
  auto* partials = n_splits == 1 ? nullptr : reinterpret_cast<float*>(c.bytes(first.partials));
  for (uint32_t i = 0; i < all.n_parts; ++i) {
    ProductParams& p = all.parts[i];
    p.n_splits = n_splits;
    p.partials = partials;
    if (n_splits > 1) partials += uint64_t{n_splits} * n_rows * p.n_columns;
  }
  const uint32_t n_warps = tile_warps(shape, n_rows);
  const Geometry geometry =
      lay_out_parts(all, 0, [=](const ProductParams& p) { return tile_geometry(p, n_warps, by); });
  BP_TRY(c.stream.launch(tile_kernel(shape.dtype, by), geometry, all));
  if (n_splits == 1) return {};
  return c.stream.launch(fold_kernel(), lay_out_parts(all, 0, fold_geometry), all);
}

// Unsplit, where partial sums are not planned for.
Status launch_unsplit_tiles(const StageContext& c, const PlannedProduct& product,
                            const ProductParams& p) {
  PlannedProduct unsplit = product;
  unsplit.partials = kNoBuffer;
  ProductsParams all;
  all.parts[0] = p;
  return launch_tiles(c, unsplit, all);
}

bool is_trivial(const Epilogue& e) {
  return e.bias == nullptr && e.scale == 1 && e.softcap == 0 && e.activation == 0;
}

LibraryProduct library_product(const ProductParams& p) {
  const uint8_t* w = p.weight.data + p.first_column * p.weight.row_bytes;
  return {p.weight.dtype,          w,          p.prepared.data, p.y.data,    p.weight.row_bytes,
          p.prepared.stride_bytes, p.y.stride, p.n_rows,        p.n_columns, p.weight.n_columns};
}

// By tiles where the library has no way.
Status launch_library(const StageContext& c, const PlannedProduct& product,
                      const ProductParams& p) {
  const Status status = c.library->multiply(library_product(p));
  if (status.code() == Code::kUnsupported) return launch_unsplit_tiles(c, product, p);
  if (!status.ok() || is_trivial(p.epilogue)) return status;
  ProductsParams all;
  all.parts[0] = p;
  return c.stream.launch(fold_kernel(), fold_geometry(p), all);
}

// Sums are scaled by the fold. Where the library has no way, x becomes bf16 for tiles, in the same
// buffer, and 8-bit floats again where a product comes after.
Status launch_fp8(const StageContext& c, const PlannedProduct& product,
                  const ProductParams& whole) {
  ProductParams p = whole;
  p.prepared = fp8_rows(c, product);
  p.row_scales = fp8_scales(p.prepared, p.n_rows);
  const Status status = c.library->multiply(library_product(p));
  if (status.code() == Code::kUnsupported) {
    BP_TRY(prepare_rows(c, product, XForm::kBf16));
    BP_TRY(launch_unsplit_tiles(c, product, whole));
    return product.is_last_of_x ? Status() : prepare_rows(c, product, XForm::kFp8);
  }
  BP_TRY(status);
  ProductsParams all;
  all.parts[0] = p;
  return c.stream.launch(fold_kernel(), fold_geometry(p), all);
}

// Columns of y slice by slice, each by weights that are made bf16 first.
Status launch_expanded(const StageContext& c, const PlannedProduct& product,
                       const ProductParams& whole, bool by_library) {
  const uint32_t most = columns_of_slice(product.shape);
  for (uint32_t first = 0; first < whole.n_columns; first += most) {
    EmbedParams expand;
    expand.table = whole.weight;
    expand.n_rows = slice_of(product.shape, first).n_columns;
    expand.n_table = ~0u;
    expand.by = RowsBy::kNumber;
    expand.offset = whole.first_column + first;
    expand.bf16 = c.bytes(product.slice);
    expand.bf16_row_bytes = expanded_row_bytes(product.shape.n_in);
    BP_TRY(c.stream.launch(embed_kernel(whole.weight.dtype), embed_geometry(expand), expand));
    ProductParams p = whole;
    p.weight = {expand.bf16, nullptr, expand.bf16_row_bytes, whole.weight.n_columns, BP_DTYPE_BF16};
    p.y.data += first;
    if (p.epilogue.bias != nullptr) p.epilogue.bias += first;
    p.n_columns = expand.n_rows;
    p.first_column = 0;
    ProductsParams all;
    all.parts[0] = p;
    BP_TRY(by_library ? launch_library(c, product, p) : launch_tiles(c, product, all));
  }
  return {};
}

TilesOfPairs sorted_pairs(const StageContext& c, const PlannedProduct& product, uint32_t n_rows) {
  const uint32_t n_pairs = n_rows * product.shape.n_groups;
  const uint32_t n_tiles = tiles_of_pairs(n_pairs, product.shape.n_matrices);
  auto* const pairs = reinterpret_cast<uint32_t*>(c.bytes(product.sorted));
  return {pairs, pairs + n_pairs, pairs + n_pairs + n_tiles, pairs + n_pairs + 2 * n_tiles};
}

Status launch_each(const StageContext& c, const Together& products, ProductKind kind) {
  for (const PlannedProduct& product : products) {
    const ProductParams p = params_of(c, product);
    if (kind == ProductKind::kLibrary) {
      BP_TRY(launch_library(c, product, p));
    } else if (kind == ProductKind::kFp8Library) {
      BP_TRY(launch_fp8(c, product, p));
    } else {
      BP_TRY(launch_expanded(c, product, p, kind == ProductKind::kExpandedLibrary));
    }
  }
  return {};
}

}  // namespace

Status prepare_rows(const StageContext& c, const PlannedProduct& product) {
  return prepare_rows(c, product, form_of(product.kind(c.n_rows(product.x)), product.shape.dtype));
}

Status prepare_rows(const StageContext& c, const PlannedProduct& product, XForm form) {
  const uint32_t n_rows = c.n_rows(product.x);
  const GateSpec& gate = product.gate;
  const bool has_gate = gate.b != kNoBuffer && !joins_gate(gate.made_by, n_rows, product.device);
  PrepareParams p;
  if (has_gate) p.x = gate.params;
  p.x.a = p.x.y = c.rows(product.x);
  if (has_gate) p.x.b = c.rows(product.gate.b);
  if (form == XForm::kFloats) {
    if (!has_gate) return {};
    p.x.n_rows = n_rows;
    p.x.width = product.n_parts * product.shape.n_in;
    return c.stream.launch(elementwise_kernel(), elementwise_geometry(p.x), p.x);
  }
  p.out = {c.bytes(product.prepared), prepared_bytes(product.shape.n_in)};
  p.form = form;
  p.n_rows = n_rows;
  p.n_parts = product.n_parts;
  p.n_in = product.shape.n_in;
  if (form != XForm::kFp8) return c.stream.launch(prepare_kernel(), prepare_geometry(p), p);
  p.out = fp8_rows(c, product);
  p.scales = fp8_scales(p.out, n_rows);
  return c.stream.launch(prepare_fp8_kernel(), prepare_fp8_geometry(p), p);
}

Status sort_pairs(const StageContext& c, const PlannedProduct& product) {
  SortPairsParams p;
  p.n_rows = c.n_rows(product.y);
  if (!is_tiles(product.kind(p.n_rows))) return {};
  if (product.ids != kNoBuffer) p.ids = c.rows(product.ids);
  p.n_groups = product.shape.n_groups;
  p.n_matrices = product.shape.n_matrices;
  const TilesOfPairs tiles = sorted_pairs(c, product, p.n_rows);
  p.pairs = const_cast<uint32_t*>(tiles.pairs);
  p.matrices = const_cast<uint32_t*>(tiles.matrices);
  p.first = const_cast<uint32_t*>(tiles.first);
  p.end = const_cast<uint32_t*>(tiles.end);
  return c.stream.launch(sort_pairs_kernel(), sort_pairs_geometry(p), p);
}

Status launch_products(const StageContext& c, const Together& products) {
  const PlannedProduct& first = products[0];
  const uint32_t n_rows = c.n_rows(first.y);
  if (n_rows == 0) return {};
  const ProductKind kind = first.kind(n_rows);
  if (kind == ProductKind::kSkinny) return launch_skinny(c, products);
  if (kind == ProductKind::kRows || kind == ProductKind::kPackedRows) {
    return launch_rows(c, products, kind == ProductKind::kPackedRows);
  }
  if (!is_tiles(kind)) return launch_each(c, products, kind);
  ProductsParams all = params_of(c, products);
  if (first.shape.n_groups > 0) {
    for (ProductParams& p : all.parts) p.tiles = sorted_pairs(c, first, n_rows);
  }
  return launch_tiles(c, first, all,
                      kind == ProductKind::kByteTiles ? TileBy::kBytes : TileBy::kHalves);
}

}  // namespace bp::cuda
