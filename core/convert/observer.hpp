#pragma once
// What goes into the products of a model while it runs: the reference interpreter as a backend that
// keeps, for each weight, the sums of the squares of its inputs. Composites with several products
// are taken apart first, so that each product's own input is seen, those of experts too.

#include <map>
#include <string>
#include <vector>

#include "backplane/backend.h"
#include "core/convert/importance.hpp"

namespace bp::convert {

class InputObserver {
 public:
  // The host of the backend offers the observer under this id.
  static constexpr const char* kId = "backplane.input-observer/0";

  // Row `x` [width] went into matrix `matrix` of `n_matrices` of a weight.
  void add(const std::string& weight, uint64_t n_matrices, uint64_t matrix, const float* x,
           uint64_t width);
  [[nodiscard]] std::map<std::string, InputSquares> squares() const;

 private:
  struct Sums {
    uint64_t width = 0;
    std::vector<double> sums;    // [n_matrices, width]
    std::vector<double> counts;  // [n_matrices]
  };
  std::map<std::string, Sums> by_weight_;
};

// Needs a host that offers an InputObserver, which outlives its backends.
const bp_backend_factory* observing_backend();

}  // namespace bp::convert
