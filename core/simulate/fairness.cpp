#include "core/simulate/fairness.hpp"

namespace bp::simulate {

void Fairness::begin_wait(uint32_t tenant) {
  Tenant& t = tenants_[tenant];
  if (++t.n_waiting > 1) return;
  t.place = static_cast<uint32_t>(backlogged_.size());
  backlogged_.push_back(tenant);
}

void Fairness::end_wait(uint32_t tenant) {
  Tenant& t = tenants_[tenant];
  if (--t.n_waiting > 0) return;
  tenants_[backlogged_.back()].place = t.place;
  backlogged_[t.place] = backlogged_.back();
  backlogged_.pop_back();
}

void Fairness::begin_step() {
  if (backlogged_.size() < 2) return;
  competing_ = backlogged_;
  for (const uint32_t tenant : competing_) tenants_[tenant].competes = true;
}

void Fairness::end_step(uint64_t us) {
  for (const uint32_t tenant : competing_) {
    tenants_[tenant].time_us += us;
    tenants_[tenant].competes = false;
  }
  competing_.clear();
}

std::optional<double> Fairness::index() const {
  double service = 0, time = 0, squares = 0;
  for (const Tenant& t : tenants_) {
    if (t.time_us == 0) continue;
    const auto s = static_cast<double>(t.service), w = static_cast<double>(t.time_us);
    service += s;
    time += w;
    squares += s * s / w;
  }
  if (squares == 0) return std::nullopt;
  return service * service / (time * squares);
}

double Fairness::competed_s(uint32_t tenant) const {
  return static_cast<double>(tenants_[tenant].time_us) * 1e-6;
}

double Fairness::rate(uint32_t tenant) const {
  const double seconds = competed_s(tenant);
  return seconds == 0 ? 0 : static_cast<double>(tenants_[tenant].service) / seconds;
}

}  // namespace bp::simulate
