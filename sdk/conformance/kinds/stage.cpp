#include "sdk/conformance/kinds/stage.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "backplane/best_candidates.hpp"
#include "backplane/plugin.hpp"
#include "backplane/sampler.hpp"
#include "sdk/conformance/kinds/attempt.hpp"
#include "sdk/conformance/kinds/guarded_memory.hpp"
#include "sdk/conformance/subject.hpp"
#include "sdk/conformance/test.hpp"

namespace bp::conformance {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Stream {
  uint64_t key;
};

// SplitMix64's last step: uniform numbers by (stream, draw).
double uniform(void* host, uint32_t draw) {
  uint64_t x = static_cast<Stream*>(host)->key + (draw + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

std::vector<bp_candidate> candidates_of(const RowCase& row, Form form, uint64_t seed) {
  std::vector<bp_candidate> all;
  for (size_t id = 0; id < row.logits.size(); ++id) {
    if (row.allows(id)) all.push_back({static_cast<int32_t>(id), row.logits[id]});
  }
  if (form == Form::kDescending) std::sort(all.begin(), all.end(), is_better);
  if (form == Form::kShuffled) std::shuffle(all.begin(), all.end(), std::mt19937_64(seed));
  return all;
}

void call(const std::string& what, bp_status status, const bp_error& error) {
  require(status == BP_OK, what + " fails: " + from_c(status, error).message());
}

}  // namespace

bool RowCase::allows(size_t id) const {
  return mask.empty() || (mask[id / 32] >> (id % 32) & 1) != 0;
}

std::string name_of(Form form) {
  constexpr const char* names[] = {"a dense row", "a dense row whose greatest logit is known",
                                   "candidates by id", "candidates best first",
                                   "shuffled candidates"};
  return names[static_cast<int>(form)];
}

// ---- sampler and state --------------------------------------------------------------------------

SamplerUnderTest::SamplerUnderTest(Subject& subject)
    : factory_(subject.factory<bp_sampler_factory>(BP_SAMPLER_ID)) {
  bp_error error{};
  call("create", factory_.create(nullptr, &subject.params(), &sampler_, &error), error);
  require(sampler_ != nullptr, "create gives OK and no sampler");
}

SamplerUnderTest::~SamplerUnderTest() {
  factory_.destroy(sampler_);
}

uint32_t SamplerUnderTest::stage(const std::string& name) const {
  for (uint32_t i = 0; i < factory_.n_stages; ++i) {
    if (name == factory_.stages[i].name) return i;
  }
  throw Failure("the library has no stage '" + name + "', which the manifest lists");
}

std::vector<Form> SamplerUnderTest::forms(uint32_t stage) const {
  std::vector<Form> forms;
  const uint32_t flags = factory_.stages[stage].flags;
  if ((flags & BP_STAGE_DENSE) != 0) forms = {Form::kDense, Form::kPeaked};
  if ((flags & BP_STAGE_SPARSE) != 0) {
    forms.insert(forms.end(), {Form::kAscending, Form::kDescending, Form::kShuffled});
  }
  return forms;
}

StateUnderTest::StateUnderTest(const SamplerUnderTest& sampler, uint32_t stage,
                               const Fields& fields, uint32_t n_vocab)
    : sampler_(&sampler),
      flags_(sampler.factory().stages[stage].flags),
      name_("stage " + std::string(sampler.factory().stages[stage].name) + " with " +
            fields.text()) {
  bp_error error{};
  call(name_ + ": state_create",
       sampler.factory().state_create(sampler.sampler(), stage, fields.params(), n_vocab, &state_,
                                      &error),
       error);
}

StateUnderTest::StateUnderTest(const SamplerUnderTest& sampler, uint32_t flags, std::string name,
                               bp_stage_state* state)
    : sampler_(&sampler), flags_(flags), name_(std::move(name)), state_(state) {}

StateUnderTest::StateUnderTest(StateUnderTest&& other) noexcept
    : sampler_(other.sampler_),
      flags_(other.flags_),
      name_(std::move(other.name_)),
      state_(std::exchange(other.state_, nullptr)) {}

StateUnderTest::~StateUnderTest() {
  if (state_ != nullptr) sampler_->factory().state_destroy(state_);
}

StateUnderTest StateUnderTest::clone() const {
  bp_error error{};
  bp_stage_state* copy = nullptr;
  call(name_ + ": state_clone", sampler_->factory().state_clone(state_, &copy, &error), error);
  require(copy != nullptr && copy != state_, name_ + ": state_clone gives no state of its own");
  return {*sampler_, flags_, name_, copy};
}

void StateUnderTest::accept(std::span<const int32_t> tokens, uint32_t origin) {
  bp_error error{};
  GuardedArray<int32_t> guarded(tokens);
  guarded.make_read_only();
  const auto n = static_cast<uint32_t>(tokens.size());
  call(name_ + ": accept", sampler_->factory().accept(state_, guarded.data(), n, origin, &error),
       error);
}

void StateUnderTest::rollback(uint32_t n) {
  bp_error error{};
  call(name_ + ": rollback", sampler_->factory().rollback(state_, n, &error), error);
}

bp_stage_effect StateUnderTest::effect() const {
  auto effect = make_growable<bp_stage_effect>();
  if (sampler_->factory().effect != nullptr) sampler_->factory().effect(state_, &effect);
  return effect;
}

Kept StateUnderTest::apply(const RowCase& given, Form form, uint64_t stream, DrawTold draw) {
  Stream host{stream};
  GuardedArray<float> logits(std::span<const float>(given.logits));
  GuardedArray<uint32_t> mask(std::span<const uint32_t>(given.mask));
  mask.make_read_only();
  GuardedArray<bp_candidate> candidates(given.logits.size());
  bp_sample_row row = make_growable<bp_sample_row>();
  row.n_vocab = static_cast<uint32_t>(given.logits.size());
  row.position = stream;
  row.allowed = given.mask.empty() ? nullptr : mask.data();
  row.candidates = candidates.data();
  row.host = &host;
  row.uniform = uniform;
  row.draw_scale = draw.scale;
  row.draw_floor = draw.floor;
  const auto greatest = static_cast<int32_t>(
      std::max_element(given.logits.begin(), given.logits.end()) - given.logits.begin());
  if (form == Form::kPeaked) row.greatest = &greatest;
  if (is_dense(form)) {
    row.logits = logits.data();
  } else {
    const auto all = candidates_of(given, form, stream);
    std::copy(all.begin(), all.end(), candidates.data());
    row.n_candidates = static_cast<uint32_t>(all.size());
    row.order = form == Form::kDescending ? BP_ORDER_DESCENDING : BP_ORDER_NONE;
  }
  bp_error error{};
  const std::string what = name_ + " on " + name_of(form) + " (" + given.text + ")";
  const Attempt attempt(what, 0);
  const bp_sample_row before = row;
  call(what + ": apply", sampler_->factory().apply(state_, &row, &error), error);
  require(keeps_rooms(before, row) && row.host == before.host && row.uniform == before.uniform,
          what + " changes members of the row that are the host's");
  row.logits = before.logits;
  try {
    return look_at(row, given, form);
  } catch (const Failure& failure) {
    throw Failure(what + " " + failure.what());
  }
}

Kept StateUnderTest::look_at(const bp_sample_row& row, const RowCase& given, Form form) const {
  const auto n_vocab = static_cast<uint32_t>(given.logits.size());
  require(row.n_candidates <= n_vocab, "leaves " + std::to_string(row.n_candidates) +
                                           " candidates of " + std::to_string(n_vocab) + " ids");
  require(row.order <= BP_ORDER_DESCENDING, "sets an unknown order");
  require(is_dense(form) || row.n_candidates > 0, "keeps no candidate");
  require(!is_dense(form) || row.n_candidates == 0 || (flags_ & BP_STAGE_TRUNCATES) != 0,
          "makes the row sparse although it does not truncate");
  Kept kept;
  size_t n_listed = 0;
  const auto see = [&](int32_t id, float logit) {
    const std::string name = "id " + std::to_string(id);
    require(id >= 0 && static_cast<uint32_t>(id) < n_vocab, "lists " + name);
    require(!std::isnan(logit), "gives " + name + " the logit NaN");
    require(logit < kInfinity, "gives " + name + " the logit +inf");
    require(given.allows(static_cast<size_t>(id)) || logit == -kInfinity,
            "allows " + name + ", which is forbidden");
    ++n_listed;
    if (logit > -kInfinity) require(kept.emplace(id, logit).second, "lists " + name + " twice");
  };
  if (row.n_candidates == 0) {
    for (uint32_t id = 0; id < n_vocab; ++id) see(static_cast<int32_t>(id), row.logits[id]);
  }
  for (uint32_t i = 0; i < row.n_candidates; ++i) {
    const bp_candidate& c = row.candidates[i];
    see(c.id, c.logit);
    const bool sorted = i == 0 || !is_better(c, row.candidates[i - 1]);
    require(row.order != BP_ORDER_DESCENDING || sorted,
            "says that candidates stand best first, but " + std::to_string(i - (i > 0 ? 1 : 0)) +
                " and " + std::to_string(i) + " do not");
  }
  require(!kept.empty(), "keeps no id that can be drawn");
  if ((flags_ & BP_STAGE_TRUNCATES) == 0 && row.n_candidates > 0) {
    const auto before = candidates_of(given, Form::kAscending, 0).size();
    require(n_listed == before, "drops candidates although it does not truncate");
  }
  return kept;
}

// ---- rows ---------------------------------------------------------------------------------------

RowCase random_row(uint64_t seed, uint32_t n_vocab) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 2.5f);
  RowCase row{"random logits", std::vector<float>(n_vocab), {}};
  for (float& logit : row.logits) logit = normal(random);
  return row;
}

std::vector<RowCase> row_cases(uint64_t seed, uint32_t n_vocab) {
  std::vector<RowCase> rows;
  const auto add = [&](const char* text, auto change) {
    RowCase row = random_row(seed + rows.size(), n_vocab);
    row.text = text;
    for (uint32_t id = 0; id < n_vocab; ++id) change(id, row.logits[id]);
    rows.push_back(std::move(row));
  };
  const auto forbid = [&](auto is_allowed) {
    RowCase& row = rows.back();
    row.mask.assign((n_vocab + 31) / 32, 0);
    for (uint32_t id = 0; id < n_vocab; ++id) {
      if (is_allowed(id)) {
        row.mask[id / 32] |= 1u << (id % 32);
      } else {
        row.logits[id] = -kInfinity;
      }
    }
  };
  add("random logits", [](uint32_t, float&) {});
  add("equal logits", [](uint32_t, float& x) { x = 0.25f; });
  add("ties", [](uint32_t id, float& x) { x = static_cast<float>(id % 4); });
  add("one far above all", [](uint32_t id, float& x) { x = id == 3 ? 1e4f : x; });
  add("wide logits", [](uint32_t, float& x) { x *= 1e3f; });
  add("huge logits", [](uint32_t, float& x) { x *= 1e34f; });
  add("negative logits", [](uint32_t, float& x) { x -= 500; });
  add("some ids at -inf", [](uint32_t id, float& x) { x = id % 3 == 0 ? -kInfinity : x; });
  add("every third id allowed", [](uint32_t, float&) {});
  forbid([](uint32_t id) { return id % 3 == 1; });
  add("one id allowed", [](uint32_t, float&) {});
  forbid([](uint32_t id) { return id == 5; });
  return rows;
}

}  // namespace bp::conformance
