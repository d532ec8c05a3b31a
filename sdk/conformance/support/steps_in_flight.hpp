#pragma once
// Steps of one executable that are submitted before those ahead of them are collected. Batches stay
// where they are until then.

#include <deque>
#include <string>

#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"

namespace bp::conformance {

// At most `depth` at a time, collected in order.
class StepsInFlight {
 public:
  StepsInFlight(BackendSession& session, uint32_t depth) : session_(session), depth_(depth) {}

  [[nodiscard]] bp_status submit(BatchBuilder& builder, uint32_t n_groups) {
    if (tickets_.size() == depth_) collect_first();
    return submit_beyond(builder, n_groups);
  }
  // Whatever is in flight.
  [[nodiscard]] bp_status submit_beyond(BatchBuilder& builder, uint32_t n_groups) {
    const bp_batch batch = builder.build(n_groups);
    uint64_t ticket = 0;
    const bp_status status =
        session_.table().submit(session_.executable(), &batch, &ticket, &error_);
    if (status == BP_OK) tickets_.push_back(ticket);
    return status;
  }
  [[nodiscard]] bp_status collect(size_t i) {
    return session_.table().collect(session_.executable(), tickets_[i], &error_);
  }
  void collect_first() {
    const bp_status status = collect(0);
    require(status == BP_OK, "collect: " + from_c(status, error_).message());
    tickets_.pop_front();
  }
  void collect_all() {
    while (!tickets_.empty()) collect_first();
  }
  [[nodiscard]] std::string message(bp_status status) const {
    return from_c(status, error_).message();
  }

 private:
  BackendSession& session_;
  uint32_t depth_;
  std::deque<uint64_t> tickets_;
  bp_error error_{};
};

}  // namespace bp::conformance
