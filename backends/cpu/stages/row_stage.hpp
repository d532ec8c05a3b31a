#pragma once
// A stage that does something to each row by itself.

#include <functional>
#include <utility>

#include "backends/cpu/stages/stage.hpp"

namespace bp::cpu {

class RowStage : public Stage {
 public:
  using Function = std::function<void(const StepContext& step, uint32_t row)>;

  RowStage(RowCount count, Function function) : count_(count), function_(std::move(function)) {}

  void run(const StepContext& step, const Worker& worker) const override {
    const Range own = worker.share(count_.of(step));
    for (uint32_t r = own.begin; r < own.end; ++r) function_(step, r);
  }

 private:
  RowCount count_;
  Function function_;
};

}  // namespace bp::cpu
