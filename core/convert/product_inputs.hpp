#pragma once
// What goes into the products of a model while it runs: its program with those values for outputs,
// which any backend can execute, and the sums of their squares.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backplane/ext/threads.h"
#include "core/convert/importance.hpp"
#include "core/model/inline_body.hpp"
#include "core/model/program.hpp"

namespace bp::convert {

// Rows that go into one or several weights. Outputs are those of the observed program.
struct ProductInput {
  uint32_t output;
  uint32_t ids;                      // output that names the matrix of each group, or BP_NONE
  uint64_t n_matrices;               // of each weight
  uint64_t n_groups;                 // products of a row
  uint64_t width;                    // columns of the weights
  bool has_shared_rows;              // all groups read the same columns
  std::vector<std::string> weights;  // as the program names them
};

struct ObservedProgram {
  model::Program program;  // outputs: all rows of a step each; no logits
  std::vector<ProductInput> inputs;
};

// Composites with products inside are taken apart, so that each product's own input is seen. The
// output's product is left out.
Result<ObservedProgram> observe_products(const model::Program& program,
                                         const model::OpBodies& bodies);

// Sums of squares over steps.
class ProductSums {
 public:
  explicit ProductSums(std::vector<ProductInput> inputs);

  // outputs: [program outputs][n_rows, output's width], of one step.
  void add(const std::vector<std::vector<float>>& outputs, uint32_t n_rows,
           const bp_threads& threads);
  // By the weights' names.
  [[nodiscard]] std::map<std::string, InputSquares> squares() const;

 private:
  struct Sums {
    std::vector<double> sums;    // [n_matrices, width]
    std::vector<double> counts;  // [n_matrices]
  };
  static void add_one(const ProductInput& input, const std::vector<std::vector<float>>& outputs,
                      uint32_t n_rows, Sums& sums);

  std::vector<ProductInput> inputs_;
  std::vector<Sums> sums_;
};

}  // namespace bp::convert
