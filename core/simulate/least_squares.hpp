#pragma once
// Fitting non-negative prices to a handful of measurements.

#include <optional>
#include <vector>

namespace bp::simulate {

struct Measurement {
  std::vector<double> amounts;  // of each thing with a price
  double total;                 // positive
};

// The prices, none negative, with the least sum of squared relative errors; of equally good ones
// those with the fewest that are not zero. All measurements have the same number of amounts, at
// most 8. Nullopt where the measurements are too few to tell anything.
std::optional<std::vector<double>> fit_prices(const std::vector<Measurement>& measurements);

// Largest |predicted - total| / total.
double worst_error(const std::vector<Measurement>& measurements, const std::vector<double>& prices);

}  // namespace bp::simulate
