#include "core/engine/sampler_chain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "backplane/plugin.hpp"
#include "backplane/sampler.hpp"
#include "backplane/softmax.hpp"
#include "core/engine/row_math.hpp"

namespace bp::engine {

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr uint32_t kFinalDraw = BP_NONE;  // the stage number of the host's own draw
constexpr char kTemperature[] = "temperature";

struct StageRandom {
  DrawKey key;
  uint32_t stage;
};

double stage_uniform(void* host, uint32_t draw) {
  const auto* random = static_cast<const StageRandom*>(host);
  return uniform(random->key, random->stage, draw);
}

bool is_zero_temperature(const plugin::ParamMap& fields) {
  const auto it = fields.find(kTemperature);
  if (it == fields.end()) return false;
  const auto* d = std::get_if<double>(&it->second);
  const auto* i = std::get_if<int64_t>(&it->second);
  return (d != nullptr && *d == 0.0) || (i != nullptr && *i == 0);
}

Status make_sparse(bp_sample_row& row) {
  uint32_t n = 0;
  for (uint32_t id = 0; id < row.n_vocab; ++id) {
    if (row.logits[id] == kMinusInfinity) continue;
    row.candidates[n++] = {static_cast<int32_t>(id), row.logits[id]};
  }
  if (n == 0) return nothing_to_draw();
  row.n_candidates = n;
  row.order = BP_ORDER_NONE;
  row.logits = nullptr;
  return {};
}

void make_dense(bp_sample_row& row, std::span<float> logits) {
  std::ranges::fill(logits, kMinusInfinity);
  for (uint32_t i = 0; i < row.n_candidates; ++i) {
    logits[static_cast<size_t>(row.candidates[i].id)] = row.candidates[i].logit;
  }
  row.logits = logits.data();
  row.n_candidates = 0;
  row.order = BP_ORDER_NONE;
}

int32_t best_of(bp_sample_row& row, const LogitsRow& given) {
  if (given.greatest != LogitsRow::kUnknown) return given.greatest;
  if (row.n_candidates > 0) make_dense(row, given.logits);
  return argmax(given.logits);
}

float greatest_of(const LogitsRow& row) {
  return row.greatest != LogitsRow::kUnknown ? row.logits[static_cast<size_t>(row.greatest)]
                                             : max_of(row.logits);
}

// What a stage left behind must be a row again, whatever the plugin did. Members that are the
// host's come back as they were given.
Status check_row(const bp_sample_row& given, bp_sample_row& row) {
  const bool is_ours = keeps_rooms(given, row);
  const uint32_t n_candidates = row.n_candidates, order = row.order;
  row = given;
  row.n_candidates = n_candidates;
  row.order = order;
  if (!is_ours)
    return internal_error("changed what is the host's: only candidates and order are its");
  if (row.n_candidates > row.n_vocab) {
    return internal_error(fmt::format("left {} candidates of {}", row.n_candidates, row.n_vocab));
  }
  for (uint32_t i = 0; i < row.n_candidates; ++i) {
    const int32_t id = row.candidates[i].id;
    if (id < 0 || static_cast<uint32_t>(id) >= row.n_vocab) {
      return internal_error(fmt::format("left a candidate with the unknown id {}", id));
    }
  }
  return {};
}

}  // namespace

double final_uniform(const DrawKey& key) {
  return uniform(key, kFinalDraw, 0);
}

Status nothing_to_draw() {
  return invalid_argument("no token can be drawn: all of them are forbidden");
}

Result<SamplerChain> SamplerChain::create(const SamplerSet& set, std::span<const std::string> names,
                                          const plugin::ParamMap& request, uint32_t n_vocab) {
  BP_ASSIGN(const auto stages, set.resolve(names.empty() ? set.chain : names));
  BP_TRY(set.check_all_read(request, stages));
  SamplerChain chain;
  for (uint32_t i = 0; i < stages.size(); ++i) {
    const StageRef& stage = stages[i];
    BP_ASSIGN(const plugin::ParamMap fields, set.fields(stage, request));
    auto state = stage.plugin->handle->make_state(stage.stage, fields, n_vocab);
    if (!state.ok()) return state.status().with_context("sampler stage " + stage.manifest->name);
    if (state->has_value()) {
      const bp_stage_effect effect = (*state)->effect();
      chain.links_.push_back({*std::move(*state), i, effect, {}});
    }
    chain.greedy_ = chain.greedy_ || is_zero_temperature(fields);
  }
  chain.n_vocab_ = n_vocab;
  const std::span links(chain.links_);
  chain.effect_ = effect_of(links, chain.greedy_);
  for (size_t i = 0; i < links.size(); ++i) {
    links[i].after = effect_of(links.subspan(i + 1), chain.greedy_);
  }
  return chain;
}

// Cuts to the best and cuts at a distance from the best give the same in either order; a distance
// shrinks with the scales before it.
ChainEffect SamplerChain::effect_of(std::span<const Link> links, bool greedy) {
  const auto has = [](uint32_t flag) {
    return [flag](const Link& link) { return (link.state.info().flags & flag) != 0; };
  };
  ChainEffect chain;
  if (greedy) {
    if (std::ranges::all_of(links, has(BP_STAGE_TRUNCATES))) chain.kind = ChainEffect::Kind::kBest;
    return chain;
  }
  chain.kind = ChainEffect::Kind::kDraw;
  for (const Link& link : links) {
    const bp_stage_effect& effect = link.effect;
    // The order of the best is lost in a dense row, and draws go by it.
    const bool loses_order = chain.top_k > 0 && !has(BP_STAGE_SPARSE)(link);
    if (loses_order) {
      chain.kind = ChainEffect::Kind::kOther;
    } else if (effect.kind == BP_EFFECT_TOP_K) {
      chain.top_k = chain.top_k == 0 ? effect.count : std::min(chain.top_k, effect.count);
    } else if (effect.kind == BP_EFFECT_FLOOR) {
      chain.floor = std::max(chain.floor, effect.value / chain.scale);
    } else if (effect.kind == BP_EFFECT_SCALE) {
      chain.scale = std::min(chain.scale * effect.value, std::numeric_limits<float>::max());
    } else {
      chain.kind = ChainEffect::Kind::kOther;
    }
  }
  if (chain.scale == 0) chain.kind = ChainEffect::Kind::kOther;  // underflow
  if (links.empty() || !std::ranges::all_of(links.subspan(1), has(BP_STAGE_SPARSE))) return chain;
  const bp_stage_effect& first = links.front().effect;
  if (first.kind == BP_EFFECT_TOP_K) chain.leading_top_k = first.count;
  return chain;
}

Result<SamplerChain> SamplerChain::clone() const {
  SamplerChain copy;
  copy.links_.reserve(links_.size());
  for (const Link& link : links_) {
    BP_ASSIGN(plugin::StageState state, link.state.clone());
    copy.links_.push_back({std::move(state), link.position, link.effect, link.after});
  }
  copy.n_vocab_ = n_vocab_;
  copy.effect_ = effect_;
  copy.greedy_ = greedy_;
  return copy;
}

Status SamplerChain::accept(std::span<const int32_t> tokens, uint32_t origin) const {
  for (const Link& link : links_) BP_TRY(link.state.accept(tokens, origin));
  return {};
}

void SamplerChain::tell_draw(const Link& link, bp_sample_row& row) const {
  const ChainEffect& after = link.after;
  const bool is_draw = after.kind == ChainEffect::Kind::kDraw && after.top_k == 0;
  row.draw_scale = is_draw ? after.scale : 0;
  row.draw_floor = is_draw ? after.floor : 0;
}

Status SamplerChain::apply(const Link& link, bp_sample_row& row) const {
  const uint32_t flags = link.state.info().flags;
  if (row.n_candidates == 0 && (flags & BP_STAGE_DENSE) == 0) BP_TRY(make_sparse(row));
  const bp_sample_row given = row;
  const bool was_sparse = row.n_candidates > 0;
  Status status = link.state.apply(row);
  if (const Status checked = check_row(given, row); status.ok()) status = checked;
  if (status.ok() && was_sparse && row.n_candidates == 0) {
    status = internal_error("left no candidate");
  }
  if (row.n_candidates > 0) row.logits = nullptr;
  return status.with_context(fmt::format("sampler stage {}", link.state.info().name));
}

Result<int32_t> SamplerChain::sample(const LogitsRow& given, const DrawKey& key,
                                     SampleScratch& scratch) const {
  scratch.candidates.resize(given.logits.size());
  auto row = make_growable<bp_sample_row>();
  row.n_vocab = static_cast<uint32_t>(given.logits.size());
  row.logits = given.logits.data();
  row.candidates = scratch.candidates.data();
  return finish(0, row, given, key);
}

Result<int32_t> SamplerChain::sample_from_top_k(std::span<const bp_candidate> best,
                                                const DrawKey& key, SampleScratch& scratch) const {
  if (best.empty()) return nothing_to_draw();
  scratch.candidates.resize(n_vocab_);
  std::ranges::copy(best, scratch.candidates.begin());
  auto row = make_growable<bp_sample_row>();
  row.n_vocab = n_vocab_;
  row.candidates = scratch.candidates.data();
  row.n_candidates = static_cast<uint32_t>(best.size());
  row.order = BP_ORDER_DESCENDING;
  return finish(1, row, {}, key);
}

Result<int32_t> SamplerChain::finish(size_t first_link, bp_sample_row row, LogitsRow given,
                                     const DrawKey& key) const {
  StageRandom random{key, 0};
  row.position = key.position;
  row.host = &random;
  row.uniform = stage_uniform;
  float scale = 1;
  for (const Link& link : std::span(links_).subspan(first_link)) {
    const uint32_t flags = link.state.info().flags;
    if (greedy_ && (flags & BP_STAGE_TRUNCATES) != 0) continue;
    if (row.n_candidates > 0 && (flags & BP_STAGE_SPARSE) == 0) make_dense(row, given.logits);
    if (row.n_candidates == 0 && &link == &links_.back() && link.effect.kind == BP_EFFECT_SCALE) {
      scale = link.effect.value;  // the draw's own pass of the row does it
      break;
    }
    row.greatest = given.greatest == LogitsRow::kUnknown ? nullptr : &given.greatest;
    tell_draw(link, row);
    random.stage = link.position;
    BP_TRY(apply(link, row));
    if (!link.keeps_greatest()) given.greatest = LogitsRow::kUnknown;
  }
  const double u = greedy_ ? 0 : final_uniform(key);
  const int32_t token = greedy_ ? best_of(row, given)
                        : row.n_candidates > 0
                            ? draw_sparse({row.candidates, row.n_candidates}, u)
                            : draw_dense(given.logits, greatest_of(given), scale, u);
  if (token < 0) return nothing_to_draw();
  return token;
}

}  // namespace bp::engine
