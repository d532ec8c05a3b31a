#pragma once
// The ticket of a backend that computes a step in submit: max_in_flight is 1, so the step is in
// flight until it is collected.

#include <cstdint>
#include <string>

#include "backplane/status.hpp"

namespace bp {

class SingleStep {
 public:
  // For submit, before it changes anything.
  [[nodiscard]] Status expect_none() const {
    if (!is_in_flight_) return {};
    return invalid_argument("the step with the ticket " + std::to_string(last_) +
                            " is in flight, and max_in_flight is 1: collect it first");
  }
  // Of a step that submit has computed, its ticket.
  [[nodiscard]] uint64_t begin() {
    is_in_flight_ = true;
    return ++last_;
  }
  Status collect(uint64_t ticket) {
    if (!is_in_flight_ || ticket != last_) {
      return invalid_argument("no step in flight has the ticket " + std::to_string(ticket));
    }
    is_in_flight_ = false;
    return {};
  }

 private:
  uint64_t last_ = 0;
  bool is_in_flight_ = false;
};

}  // namespace bp
