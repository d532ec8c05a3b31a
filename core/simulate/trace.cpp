#include "core/simulate/trace.hpp"

#include <algorithm>

#include "core/simulate/recorded_trace.hpp"
#include "core/simulate/synthetic_trace.hpp"

namespace bp::simulate {

void order_by_arrival(Trace& trace) {
  auto& requests = trace.requests;
  if (requests.empty()) return;
  std::ranges::stable_sort(requests, {}, &TraceRequest::arrival_us);
  const uint64_t first = requests.front().arrival_us;
  for (TraceRequest& request : requests) request.arrival_us -= first;
}

Result<Trace> load_trace(const std::string& path, std::optional<uint64_t> seed) {
  const bool recorded = path.ends_with(".csv") || path.ends_with(".jsonl");
  auto trace = recorded ? load_recorded_trace(path) : load_synthetic_trace(path, seed);
  if (!trace.ok()) return trace;
  if (trace->requests.empty()) return invalid_argument(path + ": it has no requests");
  order_by_arrival(*trace);
  return trace;
}

}  // namespace bp::simulate
