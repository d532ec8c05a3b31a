#pragma once
// Stage 6: what was computed and drawn becomes part of the sequences.

#include <span>
#include <vector>

#include "core/engine/finish.hpp"
#include "core/engine/sample.hpp"
#include "core/engine/schedule.hpp"

namespace bp::engine {

struct CommitContext {
  FinishContext finish;
  std::span<const int32_t> end_of_generation;
  uint32_t context;  // tokens of the longest sequence
  uint64_t now_us;   // when the step's tokens were known
};

// Appends tokens, ends answers, registers full blocks in the prefix cache and brings the forks of
// a computed prompt into being. A failed step ends its own sequences and no others. Of sequences
// that ended while the step was in flight nothing is taken.
void commit(const Plan& plan, const Status& executed, std::vector<Outcome>& outcomes,
            SequenceList& sequences, const CommitContext& c);

}  // namespace bp::engine
