#pragma once
// An engine that computes nothing: it shows a scheduler snapshots of random requests, checks every
// decision as the host does, and follows it.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backplane/scheduler.h"
#include "sdk/conformance/kinds/guarded_memory.hpp"

namespace bp::conformance {

class Subject;

struct Machine {
  std::string name;  // "few-blocks"
  uint32_t max_step_tokens, max_sequences, block_size, n_blocks;
  uint64_t step_us = 1000, token_us = 20;  // a step's time: step_us + tokens * token_us

  // Tokens that the longest request may have, prompt and answer.
  [[nodiscard]] uint32_t max_tokens() const { return (n_blocks - 1) * block_size; }
};

struct Request {
  uint64_t arrival_us = 0;
  uint32_t n_prompt = 1;
  uint32_t n_output = 1;
  uint32_t n_cached = 0;  // of the prompt, found in the prefix cache while it waits
  int32_t priority = 0;
  uint32_t tenant = 0;
  uint64_t cancelled_us = UINT64_MAX;
};

// In order of arrival; each fits the machine alone.
[[nodiscard]] std::vector<Request> random_requests(uint64_t seed, uint32_t n, const Machine& m);
[[nodiscard]] const std::vector<Machine>& machines();

class SchedulerUnderTest {
 public:
  explicit SchedulerUnderTest(Subject& subject);
  ~SchedulerUnderTest();
  SchedulerUnderTest(const SchedulerUnderTest&) = delete;
  SchedulerUnderTest& operator=(const SchedulerUnderTest&) = delete;

  [[nodiscard]] bp_status schedule(const bp_snapshot& snapshot, bp_decision& decision,
                                   bp_error& error) const;

 private:
  bp_scheduler_factory factory_;
  bp_scheduler* scheduler_ = nullptr;
};

class Simulation {
 public:
  Simulation(const Machine& machine, std::vector<Request> requests);

  // One step; false once all requests are done. Throws Failure for an invalid decision.
  bool step(const SchedulerUnderTest& scheduler);
  void run(const SchedulerUnderTest& scheduler);

  [[nodiscard]] uint64_t now_us() const { return now_us_; }
  [[nodiscard]] uint64_t n_steps() const { return n_steps_; }
  // When the first token of a request was there; UINT64_MAX: not yet.
  [[nodiscard]] uint64_t first_token_us(size_t request) const { return first_token_us_[request]; }
  // A digest of each step's decision.
  [[nodiscard]] const std::vector<uint64_t>& decisions() const { return decisions_; }

 private:
  struct Sequence {
    size_t request;
    uint32_t state, n_tokens, n_computed, n_held, n_generated;
    uint64_t last_run_step;
  };
  // A column that ends at a page nobody may touch, for any number of entries up to its capacity.
  template <class T>
  struct Column {
    explicit Column(size_t capacity) : memory(capacity) {}
    T* of(size_t n) { return memory.data() + (memory.size() - n); }
    GuardedArray<T> memory;
  };

  void admit_and_cancel();
  void fill(bp_snapshot& snapshot);
  [[nodiscard]] uint32_t base(const Sequence& s) const;
  [[nodiscard]] uint32_t missing_blocks(const Sequence& s, uint32_t n) const;
  [[nodiscard]] std::string fault_of(const bp_decision& d) const;
  void follow(const bp_decision& d);
  void compute(Sequence& s, uint32_t n);
  [[nodiscard]] std::string where() const;

  Machine machine_;
  std::vector<Request> requests_;
  std::vector<Sequence> sequences_;
  size_t n_arrived_ = 0;
  uint64_t now_us_ = 0, n_steps_ = 0, max_steps_ = 1000, last_step_us_ = 0;
  uint32_t last_step_tokens_ = 0, free_blocks_;
  std::vector<uint64_t> first_token_us_;
  std::vector<uint64_t> decisions_;

  Column<uint64_t> id_, arrival_us_, deadline_us_, last_run_step_;
  Column<uint32_t> state_, tenant_, n_prompt_, n_tokens_, n_computed_, n_cached_, n_held_;
  Column<int32_t> priority_;
  Column<uint32_t> run_, draft_, preempt_;
};

}  // namespace bp::conformance
