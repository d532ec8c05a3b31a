// Properties of schedulers on random traces of a simulated engine.

#include <algorithm>

#include "backplane/plugin.hpp"
#include "sdk/conformance/kinds/simulation.hpp"
#include "sdk/conformance/levels/levels.hpp"
#include "sdk/conformance/probe/allocations.hpp"
#include "sdk/conformance/subject.hpp"

namespace bp::conformance {

namespace {

constexpr uint32_t kRequests = 60;

// Every decision is checked as it is made; all requests but cancelled ones end.
void decides_validly(Subject& subject, const Machine& machine) {
  for (uint64_t i = 0; i < 8; ++i) {
    const SchedulerUnderTest scheduler(subject);
    const uint64_t seed = subject.options().seed * 1000 + i;
    Simulation(machine, random_requests(seed, kRequests, machine)).run(scheduler);
  }
}

// One object for all machines and traces: what it remembers of others must not matter.
void goes_on_for_ever(Subject& subject) {
  const SchedulerUnderTest scheduler(subject);
  for (uint64_t i = 0; i < 5; ++i) {
    for (const Machine& machine : machines()) {
      const uint64_t seed = subject.options().seed * 1000 + i;
      Simulation(machine, random_requests(seed, kRequests, machine)).run(scheduler);
    }
  }
}

void require_same(const Simulation& a, const Simulation& b, const std::string& what) {
  const auto& x = a.decisions();
  const auto& y = b.decisions();
  const auto at =
      static_cast<size_t>(std::mismatch(x.begin(), x.end(), y.begin(), y.end()).first - x.begin());
  require(x == y, what + " decide differently at step " + std::to_string(at));
}

void is_deterministic(Subject& subject) {
  for (const Machine& machine : machines()) {
    const auto requests = random_requests(subject.options().seed, kRequests, machine);
    const auto others = random_requests(subject.options().seed + 1, kRequests, machine);
    const SchedulerUnderTest first(subject), second(subject), third(subject);
    Simulation alone(machine, requests), beside(machine, requests), other(machine, others);
    alone.run(first);
    for (bool more = true; more;) {
      more = beside.step(second);
      more = other.step(third) || more;
    }
    require_same(alone, beside, "two schedulers with equal snapshots, one of them beside a third,");
  }
}

// Short requests come for a minute, half as many again as can be served.
std::vector<Request> overload(const Machine& machine) {
  constexpr uint32_t kPrompt = 64, kOutput = 4;
  const double step_us = static_cast<double>(machine.step_us) +
                         static_cast<double>(machine.token_us) * machine.max_step_tokens;
  const double served_per_us = machine.max_step_tokens / step_us / (kPrompt + kOutput);
  const auto gap_us = static_cast<uint64_t>(1 / (1.5 * served_per_us));
  std::vector<Request> requests;
  for (uint64_t now = 0; now < 60'000'000; now += gap_us) {
    Request& r = requests.emplace_back();
    r.arrival_us = now;
    r.n_prompt = kPrompt;
    r.n_output = kOutput;
  }
  return requests;
}

// Where more comes than can be served, waiting grows; but who came early is not passed for ever.
void starves_nobody(Subject& subject) {
  constexpr uint64_t kEarly_us = 10'000'000, kPatience_us = 30'000'000;
  for (const Machine& machine : {Machine{"overloaded", 256, 32, 16, 1024, 20'000, 200},
                                 Machine{"overloaded-few-blocks", 256, 32, 16, 160, 20'000, 200}}) {
    std::vector<Request> requests = overload(machine);
    const size_t longest = requests.size() / 60;  // arrives after a second
    requests[longest].n_prompt = 2200;
    requests[longest].n_output = 20;
    const SchedulerUnderTest scheduler(subject);
    Simulation simulation(machine, requests);
    while (simulation.now_us() < kEarly_us + kPatience_us && simulation.step(scheduler)) {
    }
    for (size_t i = 0; i < requests.size() && requests[i].arrival_us < kEarly_us; ++i) {
      const uint64_t first = simulation.first_token_us(i);
      require(first < requests[i].arrival_us + kPatience_us,
              "a request of " + std::to_string(requests[i].n_prompt) +
                  " tokens that arrived after " + std::to_string(requests[i].arrival_us / 1000) +
                  " ms has no token 30 s later, while younger ones of the same priority were "
                  "served (machine with " +
                  machine.name + ")");
    }
  }
}

void forgets_who_is_gone(Subject& subject) {
  const SchedulerUnderTest scheduler(subject);
  const Machine& machine = machines().front();
  const auto serve = [&](uint64_t seed) {
    Simulation(machine, random_requests(seed, 400, machine)).run(scheduler);
  };
  for (uint64_t i = 0; i < 3; ++i) serve(i);
  const int64_t before = allocated_bytes();
  for (uint64_t i = 3; i < 15; ++i) serve(i);
  const int64_t grown = allocated_bytes() - before;
  require(grown < 32 * 1024,
          "it holds " + std::to_string(grown) + " bytes more after 4800 requests came and went");
}

void takes_an_empty_snapshot(Subject& subject) {
  const SchedulerUnderTest scheduler(subject);
  auto snapshot = make_growable<bp_snapshot>();
  snapshot.max_step_tokens = 64;
  snapshot.max_sequences = 8;
  snapshot.block_size = 16;
  snapshot.free_blocks = 63;
  snapshot.n_blocks = 64;
  auto decision = make_growable<bp_decision>();
  bp_error error{};
  const bp_status code = scheduler.schedule(snapshot, decision, error);
  require(code == BP_OK, "a snapshot without sequences fails: " + from_c(code, error).message());
}

void refuses_unknown_bits(Subject& subject) {
  const SchedulerUnderTest scheduler(subject);
  auto snapshot = make_growable<bp_snapshot>();
  snapshot.required = uint64_t{1} << 63;
  snapshot.block_size = 16;
  auto decision = make_growable<bp_decision>();
  bp_error error{};
  const bp_status code = scheduler.schedule(snapshot, decision, error);
  require(code == BP_UNSUPPORTED && error.message[0] != 0,
          "a snapshot that requires an unknown feature gives code " + std::to_string(code) +
              ", it must be UNSUPPORTED with a sentence");
}

}  // namespace

void add_schedulers_tests(Subject&, Tests& tests) {
  const auto add = [&](const std::string& name, const std::string& description, auto body) {
    tests.push_back({"schedulers-" + name, "schedulers", description, body});
  };
  for (const Machine& machine : machines()) {
    add("decisions-" + machine.name,
        "decisions keep budget, places and blocks, and all requests end, with " + machine.name,
        [machine](Subject& s) { decides_validly(s, machine); });
  }
  add("goes-on", "one scheduler serves many traces on changing machines", goes_on_for_ever);
  add("deterministic", "equal configurations and snapshots have equal decisions", is_deterministic);
  add("no-starvation", "nobody is passed for ever by younger requests of its priority",
      starves_nobody);
  add("memory", "sequences that are gone are forgotten", forgets_who_is_gone);
  add("empty", "a snapshot without sequences is nothing to do", takes_an_empty_snapshot);
  add("unknown-bits", "a snapshot that requires an unknown feature is refused",
      refuses_unknown_bits);
}

}  // namespace bp::conformance
