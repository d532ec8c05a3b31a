#include "core/cli/bench_report.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace bp::cli {

namespace {

// Of the machine's limits; 0 where these are not known.
struct Shares {
  double of_bandwidth = 0, of_int8_peak = 0;
};

const char* name_of(Measured::Kind kind) {
  return kind == Measured::Kind::kPrefill ? "prefill" : "decode";
}

Shares shares_of(const Measured& m, const StepCost& cost, const Machine& machine) {
  const bool is_decode = m.kind == Measured::Kind::kDecode;
  Shares shares;
  if (machine.int8_tops > 0) {
    const double operations = is_decode ? cost.decode_operations() : cost.prefill_operations();
    shares.of_int8_peak = m.tokens_s * operations / (machine.int8_tops * 1e12);
  }
  // A chunk of a prompt reads weights once for many tokens: memory does not bound it.
  const double gb_s = m.bandwidth_gb_s > 0 ? m.bandwidth_gb_s : machine.bandwidth_gb_s;
  if (is_decode && gb_s > 0) {
    const double steps_s = m.tokens_s / m.n_sequences;
    shares.of_bandwidth = steps_s * cost.decode_bytes(m.n_sequences, m.context) / (gb_s * 1e9);
  }
  return shares;
}

std::string text_of(const Shares& shares) {
  std::string text;
  if (shares.of_bandwidth > 0) {
    text = fmt::format("{:.0f} % of the bandwidth", 100 * shares.of_bandwidth);
  }
  if (shares.of_int8_peak > 0) {
    text += fmt::format("{}{:.0f} % of the int8 peak", text.empty() ? "" : ", ",
                        100 * shares.of_int8_peak);
  }
  return text;
}

// "reads 45.1 GB/s", or "reads 45.1 to 81.2 GB/s": the machine may have changed meanwhile.
std::string bandwidth_text(const Machine& machine, const std::vector<Measured>& results) {
  constexpr double kSame = 1.1;
  double least = machine.bandwidth_gb_s, most = least;
  for (const Measured& m : results) {
    if (m.bandwidth_gb_s == 0) continue;
    least = std::min(least, m.bandwidth_gb_s);
    most = std::max(most, m.bandwidth_gb_s);
  }
  if (most <= least * kSame) return fmt::format("reads {:.1f} GB/s", most);
  return fmt::format("reads {:.1f} to {:.1f} GB/s", least, most);
}

}  // namespace

void BenchReport::print_table() const {
  fmt::print("{}\n{}, {} threads", model, machine.cpu, machine.n_threads);
  if (machine.bandwidth_gb_s > 0) {
    fmt::print(": {}, int8 {:.2f} TOPS", bandwidth_text(machine, results), machine.int8_tops);
  }
  fmt::print("\n\n");
  fmt::print("{:<8} {:>9} {:>8} {:>12}\n", "", "SEQUENCES", "DEPTH", "TOKENS/S");
  for (const Measured& m : results) {
    fmt::print("{:<8} {:>9} {:>8} {:>12.1f}  {}\n", name_of(m.kind), m.n_sequences, m.depth,
               m.tokens_s, text_of(shares_of(m, cost, machine)));
  }
}

void BenchReport::print_json() const {
  auto rows = nlohmann::ordered_json::array();
  for (const Measured& m : results) {
    nlohmann::ordered_json& row =
        rows.emplace_back(nlohmann::ordered_json{{"kind", name_of(m.kind)},
                                                 {"sequences", m.n_sequences},
                                                 {"depth", m.depth},
                                                 {"tokens_per_s", m.tokens_s}});
    const Shares shares = shares_of(m, cost, machine);
    if (m.bandwidth_gb_s > 0) row["bandwidth_gb_s"] = m.bandwidth_gb_s;
    if (shares.of_bandwidth > 0) row["share_of_bandwidth"] = shares.of_bandwidth;
    if (shares.of_int8_peak > 0) row["share_of_int8_peak"] = shares.of_int8_peak;
  }
  const nlohmann::ordered_json document = {{"model", model},
                                           {"prompt", n_prompt},
                                           {"generate", n_generate},
                                           {"machine",
                                            {{"cpu", machine.cpu},
                                             {"threads", machine.n_threads},
                                             {"bandwidth_gb_s", machine.bandwidth_gb_s},
                                             {"int8_tops", machine.int8_tops}}},
                                           {"results", rows}};
  fmt::print("{}\n", document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace bp::cli
