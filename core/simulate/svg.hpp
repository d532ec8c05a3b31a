#pragma once
// Line charts as SVG, nothing else.

#include <string>
#include <utility>
#include <vector>

namespace bp::simulate {

struct Curve {
  std::string name;
  std::string colour;                             // as CSS has it
  std::vector<std::pair<double, double>> points;  // ascending in x
};

struct Chart {
  std::string title, x_label, y_label;
  std::vector<Curve> curves;
  bool log_x = false;  // points at or below 0 are left out
  double max_y = 0;    // 0: as the curves ask for
};

// The charts below each other, one drawing.
std::string draw(const std::vector<Chart>& charts);

}  // namespace bp::simulate
