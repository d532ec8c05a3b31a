#pragma once
// What is replayed: requests with their arrival, lengths, priority, tenant and shared prefix.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backplane/status.hpp"
#include "core/simulate/cost_model.hpp"
#include "core/simulate/expectation.hpp"
#include "core/simulate/limits.hpp"

namespace bp::simulate {

inline constexpr uint32_t kNoPrefix = UINT32_MAX;

// The text that several prompts begin with, in pieces of equal length: two prefixes of one tenant
// are the same as far as their pieces have the same ids.
struct Prefix {
  uint32_t first_id = 0;  // index of Trace::prefix_ids
  uint32_t n_ids = 0;
  uint32_t id_tokens = 1;  // tokens of a piece

  [[nodiscard]] uint64_t n_tokens() const { return uint64_t{n_ids} * id_tokens; }
};

struct TraceRequest {
  uint64_t arrival_us = 0;  // since the first arrival of the trace
  uint32_t n_prompt = 1;    // its prefix included
  uint32_t n_output = 1;    // tokens generated
  int32_t priority = 0;     // higher first
  uint32_t tenant = 0;      // index of Trace::tenants
  uint32_t prefix = kNoPrefix;
};

struct Trace {
  std::vector<TraceRequest> requests;  // by arrival
  std::vector<std::string> tenants;    // "" for requests that name none
  std::vector<Prefix> prefixes;
  std::vector<int32_t> prefix_ids;  // not negative
  uint64_t n_skipped = 0;           // rows of a file without prompt or output
  LimitOverrides limits;            // what the file says of them
  std::optional<CostModel> cost;    // the same
  std::vector<Expectation> expectations;
};

inline constexpr uint32_t kMostTokens = 1u << 24;  // of a prompt, and of an output
inline constexpr uint64_t kMostRequests = 100'000'000;

// A .csv or .jsonl file of recorded requests, or YAML that describes synthetic ones. `seed`
// replaces that of the YAML. Errors name file and line.
Result<Trace> load_trace(const std::string& path, std::optional<uint64_t> seed);

// Sorts by arrival and lets time begin with the first.
void order_by_arrival(Trace& trace);

}  // namespace bp::simulate
