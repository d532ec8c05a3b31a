#include "core/simulate/svg.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace bp::simulate {

namespace {

constexpr double kWidth = 860, kChartHeight = 280;
constexpr double kLeft = 70, kRight = 20, kTop = 36, kBottom = 48;
constexpr int kTicks = 5;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      out += c;
    }
  }
  return out;
}

// 1, 2 or 5 times a power of ten, so that about `n` of them make `range`.
double nice_step(double range, int n) {
  const double raw = range / n;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw) return factor * power;
  }
  return 10 * power;
}

struct Axis {
  double low = 0, high = 1;
  bool log = false;

  // 0 at the beginning, 1 at the end.
  [[nodiscard]] double place(double value) const {
    if (log) return std::log(value / low) / std::log(high / low);
    return (value - low) / (high - low);
  }
  [[nodiscard]] bool shows(double value) const { return !log || value > 0; }
  [[nodiscard]] std::vector<double> ticks() const {
    std::vector<double> out;
    if (log) {
      for (double t = low; t <= high * 1.001; t *= 10) out.push_back(t);
      return out;
    }
    const double step = nice_step(high - low, kTicks);
    for (int i = 0; low + i * step <= high * 1.001; ++i) out.push_back(low + i * step);
    return out;
  }
};

Axis x_axis(const Chart& chart) {
  double low = INFINITY, high = -INFINITY;
  for (const Curve& curve : chart.curves) {
    for (const auto& [x, y] : curve.points) {
      if (chart.log_x && x <= 0) continue;
      low = std::min(low, x);
      high = std::max(high, x);
    }
  }
  if (!chart.log_x) return {0, std::isfinite(high) && high > 0 ? high : 1, false};
  if (!std::isfinite(low)) return {1, 10, true};
  low = std::pow(10, std::floor(std::log10(low)));
  high = std::pow(10, std::ceil(std::log10(high)));
  return {low, std::max(high, low * 10), true};
}

Axis y_axis(const Chart& chart) {
  double high = chart.max_y;
  if (high <= 0) {
    for (const Curve& curve : chart.curves) {
      for (const auto& [x, y] : curve.points) high = std::max(high, y);
    }
  }
  return {0, high > 0 ? high : 1, false};
}

class Drawing {
 public:
  Drawing(std::string& out, const Chart& chart, double top)
      : out_(out), chart_(chart), x_(x_axis(chart)), y_(y_axis(chart)), top_(top + kTop) {}

  void draw() {
    text(kLeft, top_ - 14, "start", "title", chart_.title);
    grid();
    for (const Curve& curve : chart_.curves) line(curve);
    legend();
    text(kLeft + plot_width() / 2, bottom() + 36, "middle", "label", chart_.x_label);
    text(kLeft, top_ - 2, "end", "label", chart_.y_label);
  }

 private:
  static double plot_width() { return kWidth - kLeft - kRight; }
  static double plot_height() { return kChartHeight - kTop - kBottom; }
  [[nodiscard]] double bottom() const { return top_ + plot_height(); }
  [[nodiscard]] double at_x(double x) const { return kLeft + x_.place(x) * plot_width(); }
  [[nodiscard]] double at_y(double y) const { return bottom() - y_.place(y) * plot_height(); }

  template <class... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Values>(values)...);
  }

  void text(double x, double y, const char* anchor, const char* style, const std::string& content) {
    add("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" class=\"{}\">{}</text>\n", x, y, anchor,
        style, escaped(content));
  }

  void grid() {
    for (const double t : x_.ticks()) {
      const double x = at_x(t);
      add("<path class=\"grid\" d=\"M{0:.1f} {1:.1f}V{2:.1f}\"/>\n", x, top_, bottom());
      text(x, bottom() + 16, "middle", "tick", fmt::format("{:g}", t));
    }
    for (const double t : y_.ticks()) {
      const double y = at_y(t);
      add("<path class=\"grid\" d=\"M{0:.1f} {1:.1f}H{2:.1f}\"/>\n", kLeft, y, kWidth - kRight);
      text(kLeft - 6, y + 4, "end", "tick", fmt::format("{:g}", t));
    }
  }

  void line(const Curve& curve) {
    std::string path;
    for (const auto& [x, y] : curve.points) {
      if (!x_.shows(x)) continue;
      fmt::format_to(std::back_inserter(path), "{}{:.1f} {:.1f}", path.empty() ? "M" : "L", at_x(x),
                     at_y(std::min(y, y_.high)));
    }
    if (path.empty()) return;
    add("<path fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" d=\"{}\"/>\n", curve.colour, path);
  }

  void legend() {
    double right = kWidth - kRight;
    for (auto it = chart_.curves.rbegin(); it != chart_.curves.rend(); ++it) {
      add("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\" class=\"label\" "
          "style=\"fill:{}\">{}</text>\n",
          right, top_ - 14, it->colour, escaped(it->name));
      right -= 7.0 * static_cast<double>(it->name.size()) + 16;
    }
  }

  std::string& out_;
  const Chart& chart_;
  const Axis x_, y_;
  const double top_;
};

}  // namespace

std::string draw(const std::vector<Chart>& charts) {
  const double height = kChartHeight * static_cast<double>(charts.size());
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "width=\"{0:.0f}\" height=\"{1:.0f}\">\n"
      "<style>text{{font-family:sans-serif}}.title{{font-size:14px;font-weight:bold}}"
      ".label{{font-size:12px}}.tick{{font-size:11px;fill:#555}}"
      ".grid{{stroke:#ddd;stroke-width:1}}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      kWidth, height);
  double top = 0;
  for (const Chart& chart : charts) {
    Drawing(out, chart, top).draw();
    top += kChartHeight;
  }
  return out + "</svg>\n";
}

}  // namespace bp::simulate
