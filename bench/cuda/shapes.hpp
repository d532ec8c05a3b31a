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
  uint32_t n_experts = 0, n_used = 0;  // of n_ff each; 0: no experts
};
[[nodiscard]] std::optional<Shape> find_shape(std::string_view name);  // shapes.cpp lists them

// The types of a model's matrices.
struct Mix {
  bp_dtype most;
  bp_dtype head;  // the table of embeddings too
  bp_dtype more;  // of v and down in half of the layers
};
// A dtype's name, or "q4_k_m".
[[nodiscard]] std::optional<Mix> find_mix(std::string_view name);

// Of the matrices that a step of n_tokens reads, experts as far as random tokens choose them.
[[nodiscard]] double weight_bytes(const Shape& shape, const Mix& mix, uint32_t n_tokens);

// n_products products of one weight's shape, by different weights, of the same rows; the last of
// them is the output. Embeddings of 16 ids come first.
void build_products(uint32_t n_in, uint32_t n_out, uint32_t n_products, bp_dtype dtype,
                    conformance::ProgramBuilder& builder);

void build_model(const Shape& shape, const Mix& mix, conformance::ProgramBuilder& builder);

}  // namespace bp::bench
