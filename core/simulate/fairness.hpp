#pragma once
// Jain's index of the service that tenants get while they compete.

#include <cstdint>
#include <optional>
#include <vector>

namespace bp::simulate {

// A tenant is backlogged while a request of its waits, and competes while another one is backlogged
// too. Its rate is tokens computed for the first time in steps in which it competes, by their time.
// The index is that of the rates, each weighted by its time: 1 where all are equal, 1/n where one
// of n gets everything.
class Fairness {
 public:
  explicit Fairness(size_t n_tenants) : tenants_(n_tenants) {}

  void begin_wait(uint32_t tenant);
  void end_wait(uint32_t tenant);

  // Around the changes of a step; those that compete at its beginning do so to its end.
  void begin_step();
  void serve(uint32_t tenant, uint32_t n_tokens) {
    if (tenants_[tenant].competes) tenants_[tenant].service += n_tokens;
  }
  void end_step(uint64_t us);

  [[nodiscard]] std::optional<double> index() const;  // nullopt where tenants never competed
  // Seconds in which the tenant competed, and tokens per second meanwhile.
  [[nodiscard]] double competed_s(uint32_t tenant) const;
  [[nodiscard]] double rate(uint32_t tenant) const;

 private:
  struct Tenant {
    uint64_t service = 0;
    uint64_t time_us = 0;
    uint32_t n_waiting = 0;
    uint32_t place = 0;  // in backlogged_
    bool competes = false;
  };

  std::vector<Tenant> tenants_;
  std::vector<uint32_t> backlogged_;
  std::vector<uint32_t> competing_;
};

}  // namespace bp::simulate
