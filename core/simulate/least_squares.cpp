#include "core/simulate/least_squares.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace bp::simulate {

namespace {

using Matrix = std::vector<std::vector<double>>;

double predict(const Measurement& m, const std::vector<double>& prices) {
  return std::inner_product(m.amounts.begin(), m.amounts.end(), prices.begin(), 0.0);
}

// Solves a symmetric positive definite system by elimination with pivots; nullopt where it is
// (nearly) singular. The diagonal is scaled to 1 before.
std::optional<std::vector<double>> solve(Matrix a, std::vector<double> b) {
  const size_t n = b.size();
  for (size_t column = 0; column < n; ++column) {
    size_t pivot = column;
    for (size_t row = column; row < n; ++row) {
      if (std::abs(a[row][column]) > std::abs(a[pivot][column])) pivot = row;
    }
    if (std::abs(a[pivot][column]) < 1e-9) return std::nullopt;
    std::swap(a[pivot], a[column]);
    std::swap(b[pivot], b[column]);
    for (size_t row = column + 1; row < n; ++row) {
      const double factor = a[row][column] / a[column][column];
      for (size_t k = column; k < n; ++k) a[row][k] -= factor * a[column][k];
      b[row] -= factor * b[column];
    }
  }
  for (size_t row = n; row-- > 0;) {
    for (size_t k = row + 1; k < n; ++k) b[row] -= a[row][k] * b[k];
    b[row] /= a[row][row];
  }
  return b;
}

// Least squares over the chosen prices, the others 0.
std::optional<std::vector<double>> fit_subset(const std::vector<Measurement>& measurements,
                                              const std::vector<size_t>& chosen) {
  const size_t n = chosen.size();
  std::vector<double> scale(n, 0);  // columns get length 1, so that units do not matter
  for (const Measurement& m : measurements) {
    for (size_t i = 0; i < n; ++i) scale[i] += std::pow(m.amounts[chosen[i]] / m.total, 2);
  }
  for (double& s : scale) {
    if (s == 0) return std::nullopt;
    s = std::sqrt(s);
  }
  Matrix a(n, std::vector<double>(n, 0));
  std::vector<double> b(n, 0);
  for (const Measurement& m : measurements) {
    const auto x = [&](size_t i) { return m.amounts[chosen[i]] / m.total / scale[i]; };
    for (size_t i = 0; i < n; ++i) {
      for (size_t k = 0; k < n; ++k) a[i][k] += x(i) * x(k);
      b[i] += x(i);
    }
  }
  auto solution = solve(std::move(a), std::move(b));
  if (!solution) return std::nullopt;
  std::vector<double> prices(measurements[0].amounts.size(), 0);
  for (size_t i = 0; i < n; ++i) prices[chosen[i]] = (*solution)[i] / scale[i];
  return prices;
}

double squared_error(const std::vector<Measurement>& measurements,
                     const std::vector<double>& prices) {
  double sum = 0;
  for (const Measurement& m : measurements) sum += std::pow(predict(m, prices) / m.total - 1, 2);
  return sum;
}

std::vector<size_t> members(uint32_t set) {
  std::vector<size_t> out;
  for (; set != 0; set &= set - 1) out.push_back(static_cast<size_t>(std::countr_zero(set)));
  return out;
}

}  // namespace

std::optional<std::vector<double>> fit_prices(const std::vector<Measurement>& measurements) {
  if (measurements.empty()) return std::nullopt;
  const auto n = static_cast<uint32_t>(measurements[0].amounts.size());
  std::vector<uint32_t> sets((size_t{1} << n) - 1);
  std::iota(sets.begin(), sets.end(), 1u);
  std::ranges::stable_sort(sets, {}, [](uint32_t set) { return std::popcount(set); });
  std::optional<std::vector<double>> best;
  double best_error = 0;
  // The best non-negative solution is the plain one of those of its prices that are not 0.
  for (const uint32_t set : sets) {
    auto prices = fit_subset(measurements, members(set));
    if (!prices || std::ranges::any_of(*prices, [](double p) { return p < 0; })) continue;
    const double error = squared_error(measurements, *prices);
    if (best && error > best_error - 1e-12) continue;
    best = std::move(prices);
    best_error = error;
  }
  return best;
}

double worst_error(const std::vector<Measurement>& measurements,
                   const std::vector<double>& prices) {
  double worst = 0;
  for (const Measurement& m : measurements) {
    worst = std::max(worst, std::abs(predict(m, prices) / m.total - 1));
  }
  return worst;
}

}  // namespace bp::simulate
