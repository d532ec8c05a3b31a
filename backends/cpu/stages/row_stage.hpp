#pragma once
// A stage that does something to each row by itself.

#include <algorithm>
#include <functional>
#include <utility>

#include "backends/cpu/stages/stage.hpp"

namespace bp::cpu {

class RowStage : public Stage {
 public:
  using Function = std::function<void(const StepContext& step, uint32_t row)>;

  RowStage(RowCount count, Function function) : count_(count), function_(std::move(function)) {}

  [[nodiscard]] PhaseItems items(const StepContext& step, uint32_t phase) const override {
    return {phase == 0 ? std::min(count_.of(step), kItems) : 0};
  }
  void run(const StepContext& step, const Worker&, uint32_t, Items& items) const override {
    for (uint32_t i; (i = items.next()) != WorkShares::kNone;) {
      const uint32_t n_rows = count_.of(step);
      const Range own = part_of(i, std::min(n_rows, kItems), n_rows);
      for (uint32_t r = own.begin; r < own.end; ++r) function_(step, r);
    }
  }

 private:
  static constexpr uint32_t kItems = 64;

  RowCount count_;
  Function function_;
};

}  // namespace bp::cpu
