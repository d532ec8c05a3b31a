#pragma once
// A sampler's stage at work on rows. Whatever it does to a row is checked against the rules that
// hold for every stage; what is left of the row can be compared.

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backplane/sampler.h"
#include "sdk/conformance/kinds/stage_fields.hpp"

namespace bp::conformance {

class Subject;
using Tokens = std::vector<int32_t>;

// Logits of one row; forbidden ids have -inf.
struct RowCase {
  std::string text;  // "random", "one allowed id", ...
  std::vector<float> logits;
  std::vector<uint32_t> mask;  // bit i of word i/32; empty: all are allowed

  [[nodiscard]] bool allows(size_t id) const;
};

// How a row is handed over; kPeaked is dense and says which logit is the greatest.
enum class Form { kDense, kPeaked, kAscending, kDescending, kShuffled };
[[nodiscard]] inline bool is_dense(Form form) {
  return form == Form::kDense || form == Form::kPeaked;
}
[[nodiscard]] std::string name_of(Form form);

// What the row says of the draw that follows; by default nothing.
struct DrawTold {
  float scale = 0;
  float floor = 0;
};

// What is left of a row: logits by id, of those that can be drawn.
using Kept = std::map<int32_t, float>;

class SamplerUnderTest {
 public:
  explicit SamplerUnderTest(Subject& subject);
  ~SamplerUnderTest();
  SamplerUnderTest(const SamplerUnderTest&) = delete;
  SamplerUnderTest& operator=(const SamplerUnderTest&) = delete;

  [[nodiscard]] const bp_sampler_factory& factory() const { return factory_; }
  [[nodiscard]] bp_sampler* sampler() const { return sampler_; }
  // Index of a stage by its name; throws Failure where the plugin has none.
  [[nodiscard]] uint32_t stage(const std::string& name) const;
  [[nodiscard]] std::vector<Form> forms(uint32_t stage) const;

 private:
  bp_sampler_factory factory_;
  bp_sampler* sampler_ = nullptr;
};

// The state of one stage for one sequence.
class StateUnderTest {
 public:
  StateUnderTest(const SamplerUnderTest& sampler, uint32_t stage, const Fields& fields,
                 uint32_t n_vocab);
  StateUnderTest(StateUnderTest&& other) noexcept;
  ~StateUnderTest();
  StateUnderTest& operator=(const StateUnderTest&) = delete;

  // The stage has nothing to do for these fields.
  [[nodiscard]] bool is_absent() const { return state_ == nullptr; }
  [[nodiscard]] StateUnderTest clone() const;
  void accept(std::span<const int32_t> tokens, uint32_t origin);
  void rollback(uint32_t n);
  // The random numbers follow from `stream`.
  Kept apply(const RowCase& row, Form form, uint64_t stream = 1, DrawTold draw = {});
  [[nodiscard]] bp_stage_effect effect() const;

 private:
  StateUnderTest(const SamplerUnderTest& sampler, uint32_t flags, std::string name,
                 bp_stage_state* state);
  Kept look_at(const bp_sample_row& row, const RowCase& given, Form form) const;

  const SamplerUnderTest* sampler_;
  uint32_t flags_;
  std::string name_;  // "stage top_k with top_k=5"
  bp_stage_state* state_ = nullptr;
};

// Rows of every shape that matters; the same for the same seed.
[[nodiscard]] std::vector<RowCase> row_cases(uint64_t seed, uint32_t n_vocab);
[[nodiscard]] RowCase random_row(uint64_t seed, uint32_t n_vocab);

}  // namespace bp::conformance
