#pragma once
// Programs of real models' shapes with random weights. Layers share four sets of weights in turn:
// one set alone is larger than a GPU's cache, so that reading costs what it costs in a model.

#include <cstdint>
#include <optional>
#include <string_view>

#include "backplane/dtype.h"
#include "sdk/conformance/support/program_builder.hpp"

namespace bp::bench {

struct Shape {
  std::string_view name;
  uint32_t dim, n_layers, n_heads, n_kv_heads, head_dim, n_ff, n_vocab;

  // Values of all matrices that each token is multiplied with.
  [[nodiscard]] uint64_t n_weights() const;
};

[[nodiscard]] std::optional<Shape> find_shape(std::string_view name);  // "8b", "1b", "tiny"

// n_products products of one weight's shape, by different weights, of the same rows; the last of
// them is the output. Embeddings of 16 ids come first.
void build_products(uint32_t n_in, uint32_t n_out, uint32_t n_products, bp_dtype dtype,
                    conformance::ProgramBuilder& builder);

void build_model(const Shape& shape, bp_dtype dtype, conformance::ProgramBuilder& builder);

}  // namespace bp::bench
