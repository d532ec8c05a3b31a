#include "sdk/conformance/kinds/simulation.hpp"

#include <algorithm>
#include <random>

#include "backplane/plugin.hpp"
#include "sdk/conformance/kinds/attempt.hpp"
#include "sdk/conformance/subject.hpp"
#include "sdk/conformance/test.hpp"

namespace bp::conformance {

const std::vector<Machine>& machines() {
  static const std::vector<Machine> all = {
      {"plenty", 512, 32, 16, 1024},          {"few-blocks", 64, 8, 16, 24},
      {"blocks-of-one-token", 16, 4, 1, 120}, {"one-token-a-step", 1, 1, 4, 30},
      {"large-blocks", 256, 16, 64, 7},       {"few-tokens", 8, 64, 16, 200},
  };
  return all;
}

std::vector<Request> random_requests(uint64_t seed, uint32_t n, const Machine& m) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t limit) { return static_cast<uint32_t>(random() % limit); };
  std::vector<Request> requests(n);
  uint64_t now = 0;
  for (Request& r : requests) {
    now += random() % 4 == 0 ? 0 : random() % 20'000;
    const uint32_t longest = std::min<uint32_t>(m.max_tokens(), random() % 5 == 0 ? 100'000 : 60);
    const uint32_t n_tokens = 2 + below(longest - 1);
    r.arrival_us = now;
    r.n_output = 1 + below(std::min(n_tokens - 1, 40u));
    r.n_prompt = n_tokens - r.n_output;
    r.n_cached = random() % 3 == 0 ? below(r.n_prompt) / m.block_size * m.block_size : 0;
    r.priority = random() % 4 == 0 ? static_cast<int32_t>(below(5)) - 2 : 0;
    r.tenant = below(3);
    if (random() % 10 == 0) r.cancelled_us = now + random() % 200'000;
  }
  return requests;
}

// ---- scheduler ----------------------------------------------------------------------------------

SchedulerUnderTest::SchedulerUnderTest(Subject& subject)
    : factory_(subject.factory<bp_scheduler_factory>(BP_SCHEDULER_ID)) {
  bp_error error{};
  const bp_status code = factory_.create(nullptr, &subject.params(), &scheduler_, &error);
  require(code == BP_OK, "create fails: " + from_c(code, error).message());
  require(scheduler_ != nullptr, "create gives OK and no scheduler");
}

SchedulerUnderTest::~SchedulerUnderTest() {
  factory_.destroy(scheduler_);
}

bp_status SchedulerUnderTest::schedule(const bp_snapshot& snapshot, bp_decision& decision,
                                       bp_error& error) const {
  return factory_.schedule(scheduler_, &snapshot, &decision, &error);
}

// ---- simulation ---------------------------------------------------------------------------------

Simulation::Simulation(const Machine& machine, std::vector<Request> requests)
    : machine_(machine),
      requests_(std::move(requests)),
      free_blocks_(machine.n_blocks - 1),
      first_token_us_(requests_.size(), UINT64_MAX),
      id_(requests_.size()),
      arrival_us_(requests_.size()),
      deadline_us_(requests_.size()),
      last_run_step_(requests_.size()),
      state_(requests_.size()),
      tenant_(requests_.size()),
      n_prompt_(requests_.size()),
      n_tokens_(requests_.size()),
      n_computed_(requests_.size()),
      n_cached_(requests_.size()),
      n_held_(requests_.size()),
      priority_(requests_.size()),
      run_(requests_.size()),
      draft_(requests_.size()),
      preempt_(requests_.size()) {
  // A token a step, and each computed again ten times.
  for (const Request& r : requests_) max_steps_ += 10 * (r.n_prompt + r.n_output);
}

void Simulation::run(const SchedulerUnderTest& scheduler) {
  while (step(scheduler)) {
  }
}

std::string Simulation::where() const {
  return " (step " + std::to_string(n_steps_) + ", " + std::to_string(sequences_.size()) +
         " sequences, machine " + machine_.name + ")";
}

void Simulation::admit_and_cancel() {
  std::erase_if(sequences_, [&](const Sequence& s) {
    if (requests_[s.request].cancelled_us > now_us_) return false;
    free_blocks_ += s.n_held;
    return true;
  });
  if (sequences_.empty() && n_arrived_ < requests_.size()) {
    now_us_ = std::max(now_us_, requests_[n_arrived_].arrival_us);
  }
  for (; n_arrived_ < requests_.size() && requests_[n_arrived_].arrival_us <= now_us_;
       ++n_arrived_) {
    sequences_.push_back(
        {n_arrived_, BP_SEQ_WAITING, requests_[n_arrived_].n_prompt, 0, 0, 0, UINT64_MAX});
  }
}

void Simulation::fill(bp_snapshot& s) {
  const size_t n = sequences_.size();
  s = make_growable<bp_snapshot>();
  s.n_seqs = static_cast<uint32_t>(n);
  s.step = n_steps_;
  s.now_us = now_us_;
  s.last_step_us = last_step_us_;
  s.last_step_tokens = last_step_tokens_;
  s.max_step_tokens = machine_.max_step_tokens;
  s.max_sequences = machine_.max_sequences;
  s.block_size = machine_.block_size;
  s.free_blocks = free_blocks_;
  s.n_blocks = machine_.n_blocks;
  for (size_t i = 0; i < n; ++i) {
    const Sequence& q = sequences_[i];
    const Request& r = requests_[q.request];
    id_.of(n)[i] = q.request + 1;
    state_.of(n)[i] = q.state;
    priority_.of(n)[i] = r.priority;
    tenant_.of(n)[i] = r.tenant;
    arrival_us_.of(n)[i] = r.arrival_us;
    deadline_us_.of(n)[i] = 0;
    n_prompt_.of(n)[i] = r.n_prompt;
    n_tokens_.of(n)[i] = q.n_tokens;
    n_computed_.of(n)[i] = q.n_computed;
    n_cached_.of(n)[i] = q.state == BP_SEQ_WAITING ? r.n_cached : 0;
    n_held_.of(n)[i] = q.n_held;
    last_run_step_.of(n)[i] = q.last_run_step;
  }
  s.id = id_.of(n), s.state = state_.of(n), s.priority = priority_.of(n);
  s.tenant = tenant_.of(n), s.arrival_us = arrival_us_.of(n), s.deadline_us = deadline_us_.of(n);
  s.n_prompt = n_prompt_.of(n), s.n_tokens = n_tokens_.of(n), s.n_computed = n_computed_.of(n);
  s.n_cached = n_cached_.of(n), s.n_held = n_held_.of(n), s.last_run_step = last_run_step_.of(n);
}

bool Simulation::step(const SchedulerUnderTest& scheduler) {
  admit_and_cancel();
  if (sequences_.empty()) return n_arrived_ < requests_.size();
  require(n_steps_ < max_steps_, "after " + std::to_string(n_steps_) + " steps " +
                                     std::to_string(sequences_.size()) +
                                     " requests are not finished: sequences are preempted again "
                                     "and again" +
                                     where());
  bp_snapshot snapshot{};
  fill(snapshot);
  const size_t n = sequences_.size();
  auto decision = make_growable<bp_decision>();
  decision.n_seqs = snapshot.n_seqs;
  decision.n_tokens = run_.of(n), decision.n_draft = draft_.of(n),
  decision.preempt = preempt_.of(n);
  for (uint32_t* column : {decision.n_tokens, decision.n_draft, decision.preempt}) {
    std::fill_n(column, n, 0u);
  }
  bp_error error{};
  const Attempt attempt("schedule" + where());
  const bp_decision given = decision;
  const bp_status code = scheduler.schedule(snapshot, decision, error);
  require(code == BP_OK, "schedule fails: " + from_c(code, error).message() + where());
  require(given.n_tokens == decision.n_tokens && given.preempt == decision.preempt &&
              given.n_seqs == decision.n_seqs,
          "schedule replaces the columns of the decision" + where());
  const std::string fault = fault_of(decision);
  require(fault.empty(), fault + where());
  follow(decision);
  return true;
}

uint32_t Simulation::base(const Sequence& s) const {
  return s.state == BP_SEQ_RUNNING ? s.n_computed : requests_[s.request].n_cached;
}

uint32_t Simulation::missing_blocks(const Sequence& s, uint32_t n) const {
  const uint32_t needed = (base(s) + n + machine_.block_size - 1) / machine_.block_size;
  return needed > s.n_held ? needed - s.n_held : 0;
}

// "" or what the host would refuse.
std::string Simulation::fault_of(const bp_decision& d) const {
  uint64_t n_tokens = 0, n_missing = 0, n_free = free_blocks_;
  uint32_t n_run = 0, n_preempted = 0;
  for (size_t i = 0; i < sequences_.size(); ++i) {
    const Sequence& s = sequences_[i];
    const std::string name = "the sequence with id " + std::to_string(s.request + 1);
    if (d.n_draft[i] != 0) return name + " gets draft tokens, which it has not";
    if (d.preempt[i] > BP_PREEMPT_RECOMPUTE) return name + " is preempted in an unknown way";
    if (d.preempt[i] != BP_KEEP && s.state == BP_SEQ_WAITING) {
      return name + " is preempted although it waits";
    }
    if (d.preempt[i] != BP_KEEP && d.n_tokens[i] != 0) return name + " is preempted and run";
    if (d.n_tokens[i] > s.n_tokens - base(s)) {
      return name + " is to compute " + std::to_string(d.n_tokens[i]) + " tokens of " +
             std::to_string(s.n_tokens - base(s)) + " that are left";
    }
    n_tokens += d.n_tokens[i];
    n_run += d.n_tokens[i] > 0 ? 1 : 0;
    n_preempted += d.preempt[i] != BP_KEEP ? 1 : 0;
    if (d.preempt[i] != BP_KEEP) n_free += s.n_held;
    if (d.n_tokens[i] > 0) n_missing += missing_blocks(s, d.n_tokens[i]);
  }
  const auto more = [](const char* what, uint64_t found, uint64_t limit) {
    return "the decision takes " + std::to_string(found) + " " + what + ", of " +
           std::to_string(limit);
  };
  if (n_tokens > machine_.max_step_tokens)
    return more("tokens", n_tokens, machine_.max_step_tokens);
  if (n_run > machine_.max_sequences) return more("sequences", n_run, machine_.max_sequences);
  if (n_missing > n_free) return more("new blocks", n_missing, n_free);
  if (n_run == 0 && n_preempted == 0) return "nothing runs and nobody is preempted";
  return {};
}

void Simulation::follow(const bp_decision& d) {
  uint64_t digest = 0xcbf29ce484222325u;
  uint32_t n_tokens = 0;
  for (size_t i = 0; i < sequences_.size(); ++i) {
    digest = (digest ^ (d.n_tokens[i] * 2u + d.preempt[i])) * 0x100000001b3u;
    n_tokens += d.n_tokens[i];
    Sequence& s = sequences_[i];
    if (d.preempt[i] == BP_KEEP) continue;
    free_blocks_ += s.n_held;
    s.state = BP_SEQ_WAITING;
    s.n_computed = s.n_held = 0;
  }
  last_step_tokens_ = n_tokens;
  last_step_us_ = machine_.step_us + machine_.token_us * n_tokens;
  now_us_ += last_step_us_;
  for (size_t i = 0; i < sequences_.size(); ++i) {
    if (d.n_tokens[i] > 0) compute(sequences_[i], d.n_tokens[i]);
  }
  std::erase_if(sequences_, [&](const Sequence& s) {
    if (s.n_generated < requests_[s.request].n_output) return false;
    free_blocks_ += s.n_held;
    return true;
  });
  decisions_.push_back(digest);
  ++n_steps_;
}

void Simulation::compute(Sequence& s, uint32_t n) {
  const uint32_t missing = missing_blocks(s, n);
  free_blocks_ -= missing;
  s.n_held += missing;
  s.n_computed = base(s) + n;
  s.state = BP_SEQ_RUNNING;
  s.last_run_step = n_steps_;
  if (s.n_computed < s.n_tokens) return;
  ++s.n_tokens;
  ++s.n_generated;
  first_token_us_[s.request] = std::min(first_token_us_[s.request], now_us_);
}

}  // namespace bp::conformance
