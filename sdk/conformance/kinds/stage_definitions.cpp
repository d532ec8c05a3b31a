#include "sdk/conformance/kinds/stage_definitions.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "sdk/conformance/test.hpp"

namespace bp::conformance {

namespace {

constexpr uint32_t kVocab = 48;
constexpr uint32_t kDraws = 4'000;
constexpr uint32_t kMostSettings = 12;
constexpr double kTie = 1e-4;  // rows that are decided by less are left out

using Numbers = std::vector<double>;

// A row's history: what penalties look at.
struct History {
  Tokens prompt, answer;
};

// The probabilities of the definition; empty where rounding may decide.
using Definition = Numbers (*)(Numbers logits, const Fields& fields, const History& history);

Numbers softmax(const Numbers& logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  Numbers p(logits.size());
  for (size_t i = 0; i < p.size(); ++i) p[i] = std::exp(logits[i] - max);
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= total;
  return p;
}

Numbers renormalised(Numbers p) {
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= total;
  return p;
}

// Ids by a key, smallest first.
std::vector<size_t> ranked(const Numbers& keys) {
  std::vector<size_t> ids(keys.size());
  std::iota(ids.begin(), ids.end(), size_t{0});
  std::stable_sort(ids.begin(), ids.end(), [&](size_t a, size_t b) { return keys[a] < keys[b]; });
  return ids;
}

// The fewest ids in the order of `keys` that reach the mass; empty where that is close.
Numbers fewest(const Numbers& p, const Numbers& keys, double mass) {
  Numbers kept(p.size(), 0);
  double sum = 0;
  const std::vector<size_t> order = ranked(keys);
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && std::fabs(keys[order[i]] - keys[order[i - 1]]) < kTie * 1e-2) return {};
    kept[order[i]] = p[order[i]];
    sum += p[order[i]];
    if (std::fabs(sum - mass) < kTie) return {};
    if (sum >= mass) break;
  }
  return renormalised(kept);
}

Numbers negated(Numbers x) {
  for (double& value : x) value = -value;
  return x;
}

Numbers top_k(Numbers logits, const Fields& fields, const History&) {
  const double k = fields.number("top_k");
  Numbers p = softmax(logits);
  const std::vector<size_t> order = ranked(negated(logits));
  for (size_t i = 0; k > 0 && i < order.size(); ++i) {
    if (static_cast<double>(i) >= k) p[order[i]] = 0;
  }
  return renormalised(p);
}

Numbers top_p(Numbers logits, const Fields& fields, const History&) {
  const double mass = fields.number("top_p");
  const Numbers p = softmax(logits);
  return mass >= 1 ? p : fewest(p, negated(p), mass);
}

Numbers min_p(Numbers logits, const Fields& fields, const History&) {
  Numbers p = softmax(logits);
  const double least = *std::max_element(p.begin(), p.end()) * fields.number("min_p");
  for (double& x : p) {
    if (x < least * (1 - 1e-9) && std::fabs(x - least) < kTie * least) return {};
    if (x < least * (1 - 1e-9)) x = 0;
  }
  return renormalised(p);
}

Numbers typical_p(Numbers logits, const Fields& fields, const History&) {
  const double mass = fields.number("typical_p");
  const Numbers p = softmax(logits);
  double entropy = 0;
  for (const double x : p) entropy -= x > 0 ? x * std::log(x) : 0;
  Numbers distance(p.size());
  for (size_t i = 0; i < p.size(); ++i) distance[i] = std::fabs(-std::log(p[i]) - entropy);
  return mass >= 1 ? p : fewest(p, distance, mass);
}

Numbers temperature(Numbers logits, const Fields& fields, const History&) {
  const double t = fields.number("temperature");
  if (t == 0) {
    Numbers best(logits.size(), 0);
    best[static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin())] = 1;
    return best;
  }
  for (double& x : logits) x /= t;
  return softmax(logits);
}

Numbers penalties(Numbers logits, const Fields& fields, const History& history) {
  Tokens window = history.prompt;
  window.insert(window.end(), history.answer.begin(), history.answer.end());
  const double last_n = fields.number("repeat_last_n");
  const size_t n =
      last_n < 0 ? window.size() : std::min(window.size(), static_cast<size_t>(last_n));
  window.erase(window.begin(), window.end() - static_cast<ptrdiff_t>(n));
  for (size_t id = 0; id < logits.size(); ++id) {
    const auto token = static_cast<int32_t>(id);
    const auto count = std::count(history.answer.begin(), history.answer.end(), token);
    const double repeat = fields.number("repeat_penalty");
    double& x = logits[id];
    if (std::count(window.begin(), window.end(), token) > 0) x = x > 0 ? x / repeat : x * repeat;
    if (count > 0) x -= fields.number("presence_penalty");
    x -= fields.number("frequency_penalty") * static_cast<double>(count);
  }
  return softmax(logits);
}

struct Known {
  const char* stage;
  std::vector<const char*> fields;
  Definition definition;
};

const std::vector<Known>& known_stages() {
  static const std::vector<Known> known = {
      {"top_k", {"top_k"}, top_k},
      {"top_p", {"top_p"}, top_p},
      {"min_p", {"min_p"}, min_p},
      {"typical_p", {"typical_p"}, typical_p},
      {"temperature", {"temperature"}, temperature},
      {"penalties",
       {"repeat_penalty", "repeat_last_n", "presence_penalty", "frequency_penalty"},
       penalties},
  };
  return known;
}

const Known* definition_of(const StageSpec& stage) {
  for (const Known& known : known_stages()) {
    const bool complete = std::all_of(known.fields.begin(), known.fields.end(),
                                      [&](const char* field) { return stage.has(field); });
    if (stage.name == known.stage && complete) return &known;
  }
  return nullptr;
}

// A draw, whether or not rows tell of it, as the host makes it.
struct FinalDraw {
  double scale, floor;
  bool told;
};
constexpr FinalDraw kFinalDraws[] = {
    {1, -INFINITY, false}, {1, -INFINITY, true}, {0.6, -INFINITY, true}, {1.4, -1.7, true}};

double weight_of(const FinalDraw& draw, double distance) {
  return distance < draw.floor ? 0 : std::exp(distance * draw.scale);
}

// The probabilities of `kept` after the draw's own floor and scale; empty where rounding may
// decide.
Numbers drawn(const Numbers& kept, const FinalDraw& draw) {
  const double greatest = *std::max_element(kept.begin(), kept.end());
  Numbers p(kept.size());
  for (size_t i = 0; i < p.size(); ++i) {
    const double distance = std::log(kept[i] / greatest);
    if (std::fabs(distance - draw.floor) < kTie) return {};
    p[i] = weight_of(draw, distance);
  }
  return renormalised(p);
}

size_t choose(const Kept& outcome, const FinalDraw& draw, double uniform) {
  double max = -INFINITY, total = 0;
  for (const auto& [id, logit] : outcome) max = std::max<double>(max, logit);
  for (const auto& [id, logit] : outcome) total += weight_of(draw, logit - max);
  double left = uniform * total;
  int32_t last = 0;
  for (const auto& [id, logit] : outcome) {
    const double weight = weight_of(draw, logit - max);
    if (weight > 0) last = id;
    left -= weight;
    if (left < 0) break;
  }
  return static_cast<size_t>(last);
}

// How many standard deviations the sum of squares lies above what chance gives (Wilson and
// Hilferty's approximation). Cells that expect fewer than 5 are one cell.
double chi_square_deviation(const std::vector<uint32_t>& counts, const Numbers& p) {
  double sum = 0, rare_expected = 0, rare_count = 0;
  int cells = 0;
  const auto add = [&](double count, double expected) {
    sum += (count - expected) * (count - expected) / expected;
    ++cells;
  };
  for (size_t i = 0; i < p.size(); ++i) {
    const double expected = p[i] * kDraws;
    if (expected >= 5) {
      add(counts[i], expected);
    } else {
      rare_expected += expected, rare_count += counts[i];
    }
  }
  if (rare_expected >= 1) add(rare_count, rare_expected);
  if (cells < 2) return 0;
  const double df = cells - 1, spread = 2 / (9 * df);
  return (std::cbrt(sum / df) - (1 - spread)) / std::sqrt(spread);
}

void require_distribution(StateUnderTest& state, const RowCase& row, Form form,
                          const FinalDraw& draw, const Numbers& p, const std::string& what,
                          std::mt19937_64& random) {
  constexpr double kMostDeviations = 5;  // chance exceeds them once in three million times
  std::vector<uint32_t> counts(p.size(), 0);
  DrawTold told;
  if (draw.told) told = {static_cast<float>(draw.scale), static_cast<float>(draw.floor)};
  for (uint32_t i = 0; i < kDraws; ++i) {
    // The state sees every row; its random numbers differ from row to row.
    const Kept outcome = state.apply(row, form, random(), told);
    const size_t id = choose(outcome, draw, static_cast<double>(random() >> 11) * 0x1p-53);
    require(p[id] > 0,
            what + ": id " + std::to_string(id) + " was drawn, which the definition does not keep");
    ++counts[id];
  }
  const double deviation = chi_square_deviation(counts, p);
  if (deviation <= kMostDeviations) return;
  size_t worst = 0;
  const auto error = [&](size_t i) { return std::fabs(counts[i] - p[i] * kDraws); };
  for (size_t i = 0; i < p.size(); ++i) worst = error(i) > error(worst) ? i : worst;
  throw Failure(what + ": " + std::to_string(kDraws) + " draws are " + std::to_string(deviation) +
                " standard deviations from the definition; id " + std::to_string(worst) +
                " was drawn " + std::to_string(counts[worst]) + " times, expected " +
                std::to_string(p[worst] * kDraws));
}

}  // namespace

bool has_definition(const StageSpec& stage) {
  return definition_of(stage) != nullptr;
}

void follows_definition(const SamplerUnderTest& sampler, const StageSpec& stage, uint64_t seed) {
  const Known& known = *definition_of(stage);
  const uint32_t index = sampler.stage(stage.name);
  const std::vector<Form> forms = sampler.forms(index);
  const History history = {{1, 2, 3, 4, 5, 3}, {3, 7, 7, 9, 1, 7}};
  std::mt19937_64 random(seed);
  uint32_t n_compared = 0;
  const std::vector<Fields> settings = settings_of(stage);
  const size_t stride = 1 + settings.size() / kMostSettings;
  for (size_t i = random() % stride; i < settings.size(); i += stride) {
    const Fields& fields = settings[i];
    StateUnderTest state(sampler, index, fields, kVocab);
    if (state.is_absent()) continue;
    state.accept(history.prompt, BP_TOKENS_PROMPT);
    state.accept(history.answer, BP_TOKENS_GENERATED);
    const RowCase row = random_row(random(), kVocab);
    const Numbers kept = known.definition({row.logits.begin(), row.logits.end()}, fields, history);
    if (kept.empty()) continue;
    const Form form = forms[n_compared++ % forms.size()];
    for (const FinalDraw& draw : kFinalDraws) {
      const Numbers p = drawn(kept, draw);
      const std::string what = fields.text() + (draw.told ? ", the draw being known" : "");
      if (!p.empty()) require_distribution(state, row, form, draw, p, what, random);
      if (!is_dense(form)) break;  // candidates are left to the host
    }
  }
  if (n_compared == 0) throw Skip("no value tried of its fields gives the stage anything to do");
}

}  // namespace bp::conformance
