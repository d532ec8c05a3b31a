#include "backends/cuda/in_flight.hpp"

#include <thread>

namespace bp::cuda {

Status wait_for(Event& event, std::chrono::microseconds polling) {
  const auto end = std::chrono::steady_clock::now() + polling;
  do {
    BP_ASSIGN(const bool is_done, event.is_done());
    if (is_done) return {};
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < end);
  return event.synchronize();
}

}  // namespace bp::cuda
