#pragma once
// Tensors whose rows a file keeps in another order, or one by one, copied into what a weight means.
//
//   huggingface: # or a list of names and such maps, of which the first that is there is taken
//     name: model.layers.{i}.mlp.experts.{n}.up_proj.weight
//     stack: n_experts                               # {n} from 0, stacked outermost
//     transpose: true                                # the two innermost dimensions
//     rows: {every: 3 * head_dim, first: 0, n: head_dim}  # those kept of each `every` rows; a list
//                                                         # of such: one after the other
//     columns: {every: 2, first: 1, n: 1}            # likewise, of a row's elements
//     negative_exp: true                             # -e^x of each element

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/model/model_file.hpp"
#include "core/model/op_entry.hpp"

namespace bp::model {

struct Selection {
  base::Yaml place;
  PlacedExpression every, first, n;
};

struct Arrangement {
  std::optional<PlacedExpression> stack;
  bool transpose = false;
  std::vector<Selection> rows;
  std::optional<Selection> columns;
  bool negative_exp = false;

  // The members of `node` but `name`.
  static Result<Arrangement> parse(const base::Yaml& node);
};

struct ArrangedShape {
  bp_dtype dtype;
  std::vector<uint64_t> dims;  // outermost first; with `rows`, all but the innermost in one
};

struct ArrangedTensor {
  ArrangedShape shape;
  std::shared_ptr<const std::vector<uint8_t>> bytes;  // without gaps
};

// `parts` are what is stacked, or one tensor. Errors do not name the tensor.
Result<ArrangedShape> arranged_shape(const Arrangement& arrangement,
                                     std::span<const bp_tensor* const> parts, const Scope& scope);
Result<ArrangedTensor> arrange(const Arrangement& arrangement, std::span<const TensorData> parts,
                               const Scope& scope);

}  // namespace bp::model
