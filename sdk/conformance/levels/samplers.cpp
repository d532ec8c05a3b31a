// What holds for every stage, whatever it does: rows stay rows, states are functions of histories.

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include "backplane/best_candidates.hpp"
#include "sdk/conformance/kinds/stage.hpp"
#include "sdk/conformance/kinds/stage_definitions.hpp"
#include "sdk/conformance/levels/levels.hpp"
#include "sdk/conformance/subject.hpp"

namespace bp::conformance {

namespace {

constexpr uint32_t kVocab = 83;  // no multiple of 32

// A history with repetitions, as penalties look for them.
Tokens history(uint64_t seed, size_t n) {
  std::mt19937_64 random(seed);
  Tokens tokens(n);
  for (int32_t& token : tokens)
    token = static_cast<int32_t>(random() % 2 == 0 ? random() % 7 : random() % kVocab);
  return tokens;
}

std::string difference(const Kept& a, const Kept& b, float tolerance) {
  for (const auto& [id, logit] : a) {
    const auto other = b.find(id);
    if (other == b.end()) return "id " + std::to_string(id) + " is kept in the first case only";
    if (logit == other->second) continue;
    const float scale = std::max(1.0f, std::fabs(logit));
    if (std::fabs(logit - other->second) <= tolerance * scale) continue;
    return "id " + std::to_string(id) + " has the logits " + std::to_string(logit) + " and " +
           std::to_string(other->second);
  }
  for (const auto& [id, logit] : b) {
    if (a.count(id) == 0) return "id " + std::to_string(id) + " is kept in the second case only";
  }
  return {};
}

void require_equal(const Kept& a, const Kept& b, const std::string& what, float tolerance = 0) {
  const std::string found = difference(a, b, tolerance);
  require(found.empty(), what + ": " + found);
}

// The settings under which a stage has something to do; Skip where there is none.
std::vector<Fields> active_settings(const SamplerUnderTest& sampler, const StageSpec& stage) {
  std::vector<Fields> active;
  for (const Fields& fields : settings_of(stage)) {
    const StateUnderTest state(sampler, sampler.stage(stage.name), fields, kVocab);
    if (!state.is_absent()) active.push_back(fields);
  }
  if (active.empty()) throw Skip("no value tried of its fields gives the stage anything to do");
  return active;
}

// What a state does to a row: the measure of whether two states are equal.
Kept probe(StateUnderTest& state, Form form, uint64_t seed) {
  return state.apply(random_row(seed, kVocab), form, seed);
}

using StageTest = void (*)(const SamplerUnderTest&, const StageSpec&, uint64_t seed);

// ---- rows ---------------------------------------------------------------------------------------

void keeps_rules(const SamplerUnderTest& sampler, const StageSpec& stage, uint64_t seed) {
  const uint32_t index = sampler.stage(stage.name);
  for (const Fields& fields : active_settings(sampler, stage)) {
    for (const RowCase& row : row_cases(seed, kVocab)) {
      for (const Form form : sampler.forms(index)) {
        StateUnderTest state(sampler, index, fields, kVocab);
        state.accept(history(seed, 20), BP_TOKENS_PROMPT);
        state.accept(history(seed + 1, 10), BP_TOKENS_GENERATED);
        state.apply(row, form);
        state.apply(row, form, seed, {0.8f, -1});
      }
    }
  }
}

void treats_forms_alike(const SamplerUnderTest& sampler, const StageSpec& stage, uint64_t seed) {
  const uint32_t index = sampler.stage(stage.name);
  const std::vector<Form> forms = sampler.forms(index);
  if (forms.size() < 2) throw Skip("the stage takes dense rows only");
  for (const Fields& fields : active_settings(sampler, stage)) {
    for (const RowCase& row : row_cases(seed, kVocab)) {
      StateUnderTest state(sampler, index, fields, kVocab);
      state.accept(history(seed, 30), BP_TOKENS_GENERATED);
      const Kept first = state.apply(row, forms[0]);
      for (const Form form : forms) {
        require_equal(first, state.apply(row, form),
                      fields.text() + ", " + row.text + ", " + name_of(forms[0]) + " against " +
                          name_of(form),
                      1e-5f);
      }
    }
  }
}

void is_deterministic(const SamplerUnderTest& sampler, const StageSpec& stage, uint64_t seed) {
  const uint32_t index = sampler.stage(stage.name);
  for (const Fields& fields : active_settings(sampler, stage)) {
    StateUnderTest first(sampler, index, fields, kVocab), second(sampler, index, fields, kVocab);
    for (uint64_t step = 0; step < 10; ++step) {
      for (const Form form : sampler.forms(index)) {
        const Kept a = probe(first, form, seed + step);
        require_equal(a, probe(second, form, seed + step), fields.text() + ", two equal states");
        require_equal(a, probe(first, form, seed + step), fields.text() + ", one state twice");
      }
      const Tokens token = history(seed + step, 1);
      first.accept(token, BP_TOKENS_GENERATED);
      second.accept(token, BP_TOKENS_GENERATED);
    }
  }
}

// Logits relative to the greatest, as a draw sees them.
Kept from_the_greatest(Kept kept) {
  float greatest = -std::numeric_limits<float>::infinity();
  for (const auto& [id, logit] : kept) greatest = std::max(greatest, logit);
  for (auto& [id, logit] : kept) logit -= greatest;
  return kept;
}

Kept by_effect(const bp_stage_effect& effect, const RowCase& row) {
  std::vector<bp_candidate> all;
  for (size_t id = 0; id < row.logits.size(); ++id) {
    if (std::isfinite(row.logits[id])) all.push_back({static_cast<int32_t>(id), row.logits[id]});
  }
  std::sort(all.begin(), all.end(), is_better);
  if (effect.kind == BP_EFFECT_TOP_K) all.resize(std::min<size_t>(all.size(), effect.count));
  Kept kept;
  for (const bp_candidate& c : all) {
    const float distance = c.logit - all[0].logit;
    if (effect.kind == BP_EFFECT_FLOOR && c.logit < all[0].logit + effect.value) continue;
    kept[c.id] = effect.kind == BP_EFFECT_SCALE ? distance * effect.value : distance;
  }
  return kept;
}

// Before and after tokens: an effect knows of none.
void does_what_it_says(const SamplerUnderTest& sampler, const StageSpec& stage, uint64_t seed) {
  const uint32_t index = sampler.stage(stage.name);
  bool says_any = false;
  for (const Fields& fields : active_settings(sampler, stage)) {
    StateUnderTest state(sampler, index, fields, kVocab);
    const bp_stage_effect effect = state.effect();
    if (effect.kind == BP_EFFECT_OTHER) continue;
    says_any = true;
    for (const RowCase& row : row_cases(seed, kVocab)) {
      for (const Form form : sampler.forms(index)) {
        require_equal(by_effect(effect, row), from_the_greatest(state.apply(row, form)),
                      fields.text() + ", " + row.text + ", its effect against apply", 1e-5f);
      }
    }
    state.accept(history(seed, 30), BP_TOKENS_GENERATED);
    const bp_stage_effect later = state.effect();
    require(later.kind == effect.kind && later.count == effect.count && later.value == effect.value,
            fields.text() + ": its effect has changed with tokens");
  }
  if (!says_any) throw Skip("the stage does not say what it does");
}

// ---- state --------------------------------------------------------------------------------------

void clones_are_equal(const SamplerUnderTest& sampler, const StageSpec& stage, uint64_t seed) {
  const uint32_t index = sampler.stage(stage.name);
  const Form form = sampler.forms(index).at(0);
  for (const Fields& fields : active_settings(sampler, stage)) {
    StateUnderTest state(sampler, index, fields, kVocab);
    state.accept(history(seed, 90), BP_TOKENS_PROMPT);
    state.accept(history(seed + 1, 12), BP_TOKENS_GENERATED);
    StateUnderTest copy = state.clone();
    const Kept before = probe(state, form, seed);
    require_equal(before, probe(copy, form, seed), fields.text() + ", state and clone");
    copy.accept(history(seed + 2, 40), BP_TOKENS_GENERATED);
    require_equal(before, probe(state, form, seed), fields.text() + ", after its clone went on");
    const Kept went_on = probe(copy, form, seed);
    state.accept(history(seed + 2, 40), BP_TOKENS_GENERATED);
    require_equal(went_on, probe(state, form, seed),
                  fields.text() + ", state and clone after equal tokens");
    state.rollback(40);
    require_equal(went_on, probe(copy, form, seed),
                  fields.text() + ", the clone after a rollback of its original");
  }
}

void rolls_back(const SamplerUnderTest& sampler, const StageSpec& stage, uint64_t seed) {
  const uint32_t index = sampler.stage(stage.name);
  const Form form = sampler.forms(index).at(0);
  for (const Fields& fields : active_settings(sampler, stage)) {
    for (const uint32_t n : {1u, 2u, 5u, 70u}) {
      StateUnderTest state(sampler, index, fields, kVocab);
      state.accept(history(seed, 60), BP_TOKENS_PROMPT);
      state.accept(history(seed + 1, 9), BP_TOKENS_GENERATED);
      const Kept before = probe(state, form, seed);
      state.accept(history(seed + n, n), BP_TOKENS_GENERATED);
      probe(state, form, seed + 1);
      state.rollback(n - n / 2);
      state.rollback(n / 2);
      const std::string what =
          fields.text() + ", after " + std::to_string(n) + " tokens were accepted and taken back";
      require_equal(before, probe(state, form, seed), what);
      // What follows must be as if they had never been there.
      StateUnderTest fresh(sampler, index, fields, kVocab);
      fresh.accept(history(seed, 60), BP_TOKENS_PROMPT);
      fresh.accept(history(seed + 1, 9), BP_TOKENS_GENERATED);
      fresh.accept(history(seed + 5, 30), BP_TOKENS_GENERATED);
      state.accept(history(seed + 5, 30), BP_TOKENS_GENERATED);
      require_equal(probe(fresh, form, seed), probe(state, form, seed), what + " and 30 others");
    }
  }
}

void is_rebuilt_by_accept(const SamplerUnderTest& sampler, const StageSpec& stage, uint64_t seed) {
  const uint32_t index = sampler.stage(stage.name);
  const Form form = sampler.forms(index).at(0);
  const Tokens prompt = history(seed, 75), answer = history(seed + 1, 33);
  for (const Fields& fields : active_settings(sampler, stage)) {
    StateUnderTest lived(sampler, index, fields, kVocab), rebuilt(sampler, index, fields, kVocab);
    lived.accept(prompt, BP_TOKENS_PROMPT);
    for (const int32_t token : answer) {
      probe(lived, form, seed);
      lived.accept({&token, 1}, BP_TOKENS_GENERATED);
    }
    rebuilt.accept(std::span(prompt).first(40), BP_TOKENS_PROMPT);
    rebuilt.accept(std::span(prompt).subspan(40), BP_TOKENS_PROMPT);
    rebuilt.accept({}, BP_TOKENS_GENERATED);
    rebuilt.accept(answer, BP_TOKENS_GENERATED);
    require_equal(probe(lived, form, seed), probe(rebuilt, form, seed),
                  fields.text() + ", token by token against all at once");
  }
}

void states_are_independent(const SamplerUnderTest& sampler, const StageSpec& stage,
                            uint64_t seed) {
  const uint32_t index = sampler.stage(stage.name);
  const Form form = sampler.forms(index).at(0);
  const std::vector<Fields> settings = active_settings(sampler, stage);
  const auto run = [&](const Fields& fields, uint64_t sequence) {
    StateUnderTest state(sampler, index, fields, kVocab);
    Kept last;
    for (uint64_t step = 0; step < 200; ++step) {
      last = probe(state, form, seed + sequence * 1000 + step);
      state.accept(history(sequence + step, 1), BP_TOKENS_GENERATED);
    }
    return last;
  };
  std::vector<Kept> alone, together(4);
  for (uint64_t s = 0; s < together.size(); ++s) {
    alone.push_back(run(settings[s % settings.size()], s));
  }
  std::vector<std::string> failures(together.size());
  std::vector<std::thread> threads;
  for (uint64_t s = 0; s < together.size(); ++s) {
    threads.emplace_back([&, s] {
      try {
        together[s] = run(settings[s % settings.size()], s);
      } catch (const Failure& failure) {
        failures[s] = failure.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint64_t s = 0; s < together.size(); ++s) {
    require(failures[s].empty(), failures[s]);
    require_equal(
        alone[s], together[s],
        settings[s % settings.size()].text() + ", alone against four sequences on four threads");
  }
}

// ---- table --------------------------------------------------------------------------------------

void table_is_as_in_the_manifest(Subject& subject) {
  const SamplerUnderTest sampler(subject);
  const bp_sampler_factory& factory = sampler.factory();
  const std::vector<StageSpec> specs = stages_of(subject);
  require(factory.n_stages == specs.size(), "the library has " + std::to_string(factory.n_stages) +
                                                " stages, the manifest " +
                                                std::to_string(specs.size()));
  for (uint32_t i = 0; i < factory.n_stages; ++i) {
    const bp_stage_info& info = factory.stages[i];
    require(info.name != nullptr && specs[i].name == info.name,
            "stage " + std::to_string(i) + " is '" + (info.name == nullptr ? "" : info.name) +
                "' in the library, '" + specs[i].name + "' in the manifest");
    constexpr uint32_t kAny = BP_STAGE_DENSE | BP_STAGE_SPARSE;
    require((info.flags & kAny) != 0, specs[i].name + " takes neither dense rows nor candidates");
    require((info.flags & ~(kAny | BP_STAGE_TRUNCATES)) == 0,
            specs[i].name + " has unknown flags: " + std::to_string(info.flags));
  }
}

void refuses_unknown_stages(Subject& subject) {
  const SamplerUnderTest sampler(subject);
  const bp_params none = {sizeof none, 0, nullptr};
  for (const uint32_t index : {sampler.factory().n_stages, UINT32_MAX}) {
    bp_error error{};
    bp_stage_state* state = nullptr;
    const bp_status code =
        sampler.factory().state_create(sampler.sampler(), index, &none, kVocab, &state, &error);
    require(code != BP_OK && state == nullptr && error.message[0] != 0,
            "state_create of stage " + std::to_string(index) +
                ", which does not exist, must fail with a sentence");
  }
}

std::string kebab(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

}  // namespace

void add_samplers_tests(Subject& subject, Tests& tests) {
  tests.push_back({"samplers-table", "samplers", "the library's stages are those of its manifest",
                   table_is_as_in_the_manifest});
  tests.push_back({"samplers-unknown-stage", "samplers", "a stage that does not exist is refused",
                   refuses_unknown_stages});
  struct Row {
    const char* name;
    const char* description;
    StageTest body;
  };
  constexpr Row kRows[] = {
      {"rules", "keeps a candidate, only allowed ids, no NaN, an honest order, no stray write",
       keeps_rules},
      {"forms", "dense rows and candidates in any order have the same outcome", treats_forms_alike},
      {"effect", "what the stage says that it does is what it does", does_what_it_says},
      {"deterministic", "equal states and random numbers have equal outcomes", is_deterministic},
      {"clone", "a clone is equal, and a state of its own", clones_are_equal},
      {"rollback", "tokens that are taken back were never there", rolls_back},
      {"rebuild", "accepting the whole history at once gives the same state", is_rebuilt_by_accept},
      {"independent", "sequences do not see each other, on any thread", states_are_independent},
      {"definition", "tokens are drawn as the stage's definition says, by chi-square",
       follows_definition},
  };
  for (const StageSpec& stage : stages_of(subject)) {
    for (const Row& row : kRows) {
      if (row.body == follows_definition && !has_definition(stage)) continue;
      tests.push_back({"samplers-" + kebab(stage.name) + "-" + row.name, "samplers",
                       stage.name + ": " + row.description, [stage, row](Subject& s) {
                         row.body(SamplerUnderTest(s), stage, s.options().seed);
                       }});
    }
  }
}

}  // namespace bp::conformance
