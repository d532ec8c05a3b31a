#include "core/quantize/mixture.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "backplane/dtype.hpp"
#include "core/base/nearest.hpp"
#include "core/quantize/rows.hpp"

namespace bp::quantize {

namespace {

using enum Role;
using enum Layers;
using enum Only;

// Of the types of four bits and fewer: keys and values of mixtures of eight experts are small
// beside the experts.
constexpr Rule kExpertRules[] = {
    {kAttnV, kAll, kEightExperts, BP_DTYPE_Q8_0},
    {kAttnK, kAll, kEightExperts, BP_DTYPE_Q8_0},
};
constexpr Rule kExpertOutputRules[] = {
    {kAttnV, kAll, kEightExperts, BP_DTYPE_Q8_0},
    {kAttnK, kAll, kEightExperts, BP_DTYPE_Q8_0},
    {kAttnOutput, kAll, kEightExperts, BP_DTYPE_Q5_K},
};

constexpr Rule kQ4_0[] = {{kFfnDown, kFirstEighth, kWithImportance, BP_DTYPE_Q4_1}};
constexpr Rule kQ5_0[] = {{kFfnDown, kFirstEighth, kWithImportance, BP_DTYPE_Q5_1}};
constexpr Rule kQ2_K[] = {
    {kAttnV, kAll, kSharedKv, BP_DTYPE_Q4_K},    {kAttnV, kAll, kAlways, BP_DTYPE_Q3_K},
    {kFfnDown, kAll, kAlways, BP_DTYPE_Q3_K},    {kAttnOutput, kAll, kFalcon, BP_DTYPE_Q2_K},
    {kAttnOutput, kAll, kAlways, BP_DTYPE_Q3_K},
};
constexpr Rule kQ2_K_S[] = {
    {kAttnV, kAll, kSharedKv, BP_DTYPE_Q4_K},
    {kFfnDown, kFirstEighth, kAlways, BP_DTYPE_Q4_K},
};
constexpr Rule kQ3_K_M[] = {
    {kAttnV, kFirstTwo, kAlways, BP_DTYPE_Q5_K},
    {kAttnV, kAll, kAlways, BP_DTYPE_Q4_K},
    {kFfnDown, kFirstSixteenth, kAlways, BP_DTYPE_Q5_K},
    {kFfnDown, kSpread, kFalcon, BP_DTYPE_Q4_K},
    {kFfnDown, kAll, kFalcon, BP_DTYPE_Q3_K},
    {kFfnDown, kAll, kAlways, BP_DTYPE_Q4_K},
    {kAttnOutput, kAll, kFalcon, BP_DTYPE_Q3_K},
    {kAttnOutput, kAll, kAlways, BP_DTYPE_Q4_K},
};
constexpr Rule kQ3_K_L[] = {
    {kAttnV, kAll, kAlways, BP_DTYPE_Q5_K},
    {kFfnDown, kAll, kFalcon, BP_DTYPE_Q4_K},
    {kFfnDown, kAll, kAlways, BP_DTYPE_Q5_K},
    {kAttnOutput, kAll, kFalcon, BP_DTYPE_Q4_K},
    {kAttnOutput, kAll, kEightExperts, BP_DTYPE_Q3_K},
    {kAttnOutput, kAll, kAlways, BP_DTYPE_Q5_K},
};
constexpr Rule kQ4_K_S[] = {
    {kAttnV, kFirstFour, kAlways, BP_DTYPE_Q5_K},
    {kFfnDown, kAll, kFalcon, BP_DTYPE_Q4_K},
    {kFfnDown, kFirstEighth, kAlways, BP_DTYPE_Q5_K},
};
constexpr Rule kQ4_K_M[] = {
    {kAttnV, kSpread, kAlways, BP_DTYPE_Q6_K},
    {kFfnDown, kFirstSixteenth, kFalcon, BP_DTYPE_Q6_K},
    {kFfnDown, kSpread, kFalcon, BP_DTYPE_Q5_K},
    {kFfnDown, kAll, kFalcon, BP_DTYPE_Q4_K},
    {kFfnDown, kSpread, kAlways, BP_DTYPE_Q6_K},
};
constexpr Rule kQ5_K_M[] = {
    {kAttnV, kSpread, kAlways, BP_DTYPE_Q6_K},
    {kFfnDown, kSpread, kAlways, BP_DTYPE_Q6_K},
};
// Of one bit and a bit, and of two.
constexpr Rule kIq1[] = {
    {kOutput, kAll, kAlways, BP_DTYPE_Q5_K},
    {kEmbedding, kAll, kAlways, BP_DTYPE_Q2_K},
    {kAttnV, kAll, kSharedKvOrExperts, BP_DTYPE_Q4_K},
    {kAttnV, kAll, kAlways, BP_DTYPE_Q2_K},
    {kAttnK, kAll, kEightExperts, BP_DTYPE_Q4_K},
    {kFfnDown, kFirstEighth, kAlways, BP_DTYPE_Q2_K},
    {kAttnOutput, kAll, kEightExperts, BP_DTYPE_Q5_K},
    {kAttnOutput, kAll, kAlways, BP_DTYPE_IQ2_XXS},
};
constexpr Rule kIq2_X[] = {
    {kOutput, kAll, kAlways, BP_DTYPE_Q5_K},
    {kEmbedding, kAll, kAlways, BP_DTYPE_Q2_K},
    {kAttnV, kAll, kSharedKvOrExperts, BP_DTYPE_Q4_K},
    {kAttnV, kAll, kAlways, BP_DTYPE_Q2_K},
    {kAttnK, kAll, kEightExperts, BP_DTYPE_Q4_K},
    {kFfnDown, kFirstEighth, kAlways, BP_DTYPE_Q2_K},
    {kAttnOutput, kAll, kEightExperts, BP_DTYPE_Q5_K},
};
constexpr Rule kIq2_S[] = {
    {kOutput, kAll, kAlways, BP_DTYPE_Q5_K},
    {kEmbedding, kAll, kAlways, BP_DTYPE_IQ3_S},
    {kAttnV, kAll, kSharedKvOrExperts, BP_DTYPE_Q4_K},
    {kAttnV, kAll, kAlways, BP_DTYPE_IQ3_S},
    {kAttnK, kAll, kEightExperts, BP_DTYPE_Q4_K},
    {kFfnDown, kFirstEighth, kAlways, BP_DTYPE_IQ3_S},
    {kAttnOutput, kAll, kEightExperts, BP_DTYPE_Q5_K},
    {kAttnOutput, kAll, kAlways, BP_DTYPE_IQ3_S},
};
constexpr Rule kIq3_XXS[] = {
    {kOutput, kAll, kAlways, BP_DTYPE_Q5_K},
    {kEmbedding, kAll, kAlways, BP_DTYPE_IQ3_S},
    {kAttnV, kAll, kSharedKv, BP_DTYPE_Q4_K},
    {kAttnV, kAll, kWithoutImportance, BP_DTYPE_IQ3_S},
    {kAttnK, kAll, kAlways, BP_DTYPE_IQ2_S},
    {kAttnQ, kAll, kAlways, BP_DTYPE_IQ2_S},
    {kFfnDown, kFirstEighth, kWithoutImportance, BP_DTYPE_Q4_K},
    {kFfnDown, kAll, kWithoutImportance, BP_DTYPE_Q3_K},
    {kAttnOutput, kAll, kFalcon, BP_DTYPE_IQ3_XXS},
    {kAttnOutput, kAll, kAlways, BP_DTYPE_IQ3_S},
};
constexpr Rule kIq3_XS[] = {
    {kAttnV, kAll, kSharedKv, BP_DTYPE_Q4_K},     {kAttnK, kAll, kAlways, BP_DTYPE_IQ3_XXS},
    {kAttnQ, kAll, kAlways, BP_DTYPE_IQ3_XXS},    {kFfnGate, kMiddle, kAlways, BP_DTYPE_IQ3_XXS},
    {kFfnUp, kMiddle, kAlways, BP_DTYPE_IQ3_XXS},
};
constexpr Rule kIq3_S[] = {{kAttnV, kAll, kSharedKv, BP_DTYPE_Q4_K}};
constexpr Rule kIq3_M[] = {
    {kAttnV, kAll, kAlways, BP_DTYPE_Q4_K},
    {kFfnDown, kFirstEighth, kAlways, BP_DTYPE_Q4_K},
    {kFfnDown, kSpread, kEightExperts, BP_DTYPE_Q4_K},
    {kAttnOutput, kAll, kFalcon, BP_DTYPE_IQ3_S},
    {kAttnOutput, kAll, kAlways, BP_DTYPE_Q4_K},
};
constexpr Rule kIq4[] = {
    {kAttnV, kAll, kSharedKv, BP_DTYPE_Q5_K},
    {kFfnDown, kFirstEighth, kWithoutImportance, BP_DTYPE_Q5_K},
};
constexpr Rule kTernary[] = {{kEmbedding, kAll, kAlways, BP_DTYPE_Q4_K}};

// Files of more bits than Q6_K keep one type for all.
constexpr auto kMixtures = std::to_array<Mixture>({
    {"F32", 0, BP_DTYPE_F32},
    {"F16", 1, BP_DTYPE_F16},
    {"BF16", 32, BP_DTYPE_BF16},
    {"Q8_0", 7, BP_DTYPE_Q8_0},
    {"Q4_0", 2, BP_DTYPE_Q4_0, kExpertRules, kQ4_0},
    {"Q4_1", 3, BP_DTYPE_Q4_1, kExpertRules},
    {"Q5_0", 8, BP_DTYPE_Q5_0, kExpertRules, kQ5_0},
    {"Q5_1", 9, BP_DTYPE_Q5_1, kExpertRules},
    {"Q2_K", 10, BP_DTYPE_Q2_K, kExpertOutputRules, kQ2_K},
    {"Q2_K_S", 21, BP_DTYPE_Q2_K, kExpertRules, kQ2_K_S},
    {"Q3_K_S", 11, BP_DTYPE_Q3_K, kExpertOutputRules},
    {"Q3_K_M", 12, BP_DTYPE_Q3_K, kExpertOutputRules, kQ3_K_M},
    {"Q3_K_L", 13, BP_DTYPE_Q3_K, kExpertRules, kQ3_K_L},
    {"Q4_K_S", 14, BP_DTYPE_Q4_K, kExpertOutputRules, kQ4_K_S},
    {"Q4_K_M", 15, BP_DTYPE_Q4_K, kExpertOutputRules, kQ4_K_M},
    {"Q5_K_S", 16, BP_DTYPE_Q5_K, kExpertRules},
    {"Q5_K_M", 17, BP_DTYPE_Q5_K, kExpertRules, kQ5_K_M},
    {"Q6_K", 18, BP_DTYPE_Q6_K, kExpertRules},
    {"IQ1_S", 24, BP_DTYPE_IQ1_S, kIq1},
    {"IQ1_M", 31, BP_DTYPE_IQ1_M, kIq1},
    {"IQ2_XXS", 19, BP_DTYPE_IQ2_XXS, kIq2_X},
    {"IQ2_XS", 20, BP_DTYPE_IQ2_XS, kIq2_X},
    {"IQ2_S", 28, BP_DTYPE_IQ2_XS, kIq2_S},
    {"IQ2_M", 29, BP_DTYPE_IQ2_S, kIq2_S},
    {"IQ3_XXS", 23, BP_DTYPE_IQ3_XXS, kExpertOutputRules, kIq3_XXS},
    {"IQ3_XS", 22, BP_DTYPE_IQ3_S, kExpertOutputRules, kIq3_XS},
    {"IQ3_S", 26, BP_DTYPE_IQ3_S, kExpertOutputRules, kIq3_S},
    {"IQ3_M", 27, BP_DTYPE_IQ3_S, kExpertOutputRules, kIq3_M},
    {"IQ4_NL", 25, BP_DTYPE_IQ4_NL, kExpertOutputRules, kIq4},
    {"IQ4_XS", 30, BP_DTYPE_IQ4_XS, kExpertOutputRules, kIq4},
    {"TQ1_0", 36, BP_DTYPE_TQ1_0, kExpertRules, kTernary},
    {"TQ2_0", 37, BP_DTYPE_TQ2_0, kExpertRules, kTernary},
    {"MXFP4_MOE", 38, BP_DTYPE_Q8_0},
    {"MXFP4", 38, BP_DTYPE_MXFP4},
    {"NVFP4", 39, BP_DTYPE_NVFP4},
    {"Q1_0", 40, BP_DTYPE_Q1_0, kExpertRules},
    {"Q2_0", 41, BP_DTYPE_Q2_0, kExpertRules, kTernary},
});

struct RoleName {
  std::string_view part;
  Role role;
};
constexpr RoleName kRoleNames[] = {
    {"attn_v.weight", kAttnV}, {"attn_kv_b.weight", kAttnV}, {"attn_qkv.weight", kAttnV},
    {"attn_k.weight", kAttnK}, {"attn_q.weight", kAttnQ},    {"attn_output.weight", kAttnOutput},
    {"ffn_gate", kFfnGate},    {"ffn_up", kFfnUp},           {"ffn_down", kFfnDown},
};

// Parts of names of matrices that are kept as they are.
constexpr std::string_view kKept[] = {
    "_norm.weight", "ffn_gate_inp",   "position_embd", "token_types",
    "ssm_conv1d",   "shortconv.conv", "attn_rel_b",    "altup",
    "laurel",       "rope_freqs",     "rope_factors",
};

Role role_of(std::string_view name, const ModelShape& shape) {
  if (name == "output.weight") return kOutput;
  if (name == "token_embd.weight") return shape.has_output ? kEmbedding : kOutput;
  for (const RoleName& entry : kRoleNames) {
    if (name.find(entry.part) != std::string_view::npos) return entry.role;
  }
  return kOther;
}

// The number in "blk.N.", or 0.
uint32_t layer_of(std::string_view name) {
  uint32_t layer = 0;
  if (!name.starts_with("blk.")) return 0;
  for (size_t i = 4; i < name.size() && std::isdigit(static_cast<unsigned char>(name[i])); ++i) {
    if (layer < 100000) layer = 10 * layer + static_cast<uint32_t>(name[i] - '0');
  }
  return layer;
}

// A layer's number among those that a rule counts, and how many they are.
struct Place {
  uint32_t layer, n_layers;
};

Place place_of(std::string_view name, Role role, const ModelShape& shape) {
  const uint32_t layer = layer_of(name);
  const auto& values = shape.value_layers;
  if (role != kAttnV || values.empty()) return {layer, shape.n_layers};
  const auto at = std::ranges::lower_bound(values, layer) - values.begin();
  return {static_cast<uint32_t>(at), static_cast<uint32_t>(values.size())};
}

bool applies(Layers layers, Place place) {
  const auto [layer, n_layers] = place;
  const uint32_t eighth = n_layers / 8;
  const bool is_outer = layer < eighth || layer >= 7 * n_layers / 8;
  switch (layers) {
    case kAll:
      return true;
    case kFirstTwo:
      return layer < 2;
    case kFirstFour:
      return layer < 4;
    case kFirstSixteenth:
      return layer < n_layers / 16;
    case kFirstEighth:
      return layer < eighth;
    case kSpread:
      return is_outer || (layer - eighth) % 3 == 2;
    case kMiddle:
      return !is_outer;
  }
  return false;
}

bool is_falcon(const ModelShape& shape) {
  return shape.architecture == "falcon";
}

// Of 80 layers, whose values are an eighth of the queries or less.
bool is_70b(const ModelShape& shape) {
  const bool is_one = shape.architecture == "llama" || shape.architecture == "qwen2";
  return is_one && shape.n_layers == 80;
}

bool applies(Only only, const ModelShape& shape) {
  switch (only) {
    case kAlways:
      return true;
    case kSharedKv:
      return shape.heads_per_kv_head >= 4;
    case kSharedKvOrExperts:
      return shape.heads_per_kv_head >= 4 || shape.n_experts >= 4;
    case kEightExperts:
      return shape.n_experts == 8;
    case kWithImportance:
      return shape.has_importance;
    case kWithoutImportance:
      return !shape.has_importance;
    case kFalcon:
      return is_falcon(shape);
  }
  return false;
}

const Rule* find_rule(std::span<const Rule> rules, Role role, Place place,
                      const ModelShape& shape) {
  for (const Rule& rule : rules) {
    if (rule.role == role && applies(rule.only, shape) && applies(rule.layers, place)) {
      return &rule;
    }
  }
  return nullptr;
}

bool is_plain(bp_dtype dtype) {
  return !is_block_quantised(dtype) || dtype == BP_DTYPE_Q8_0;
}

bool is_of_two_bits(bp_dtype dtype) {
  return dtype == BP_DTYPE_IQ1_S || dtype == BP_DTYPE_IQ1_M || dtype == BP_DTYPE_IQ2_XXS ||
         dtype == BP_DTYPE_IQ2_XS || dtype == BP_DTYPE_IQ2_S;
}

bp_dtype wanted_type(const Mixture& mixture, const ModelShape& shape, std::string_view name,
                     uint64_t width, bool is_stack_of_experts) {
  if (mixture.name == "MXFP4_MOE") return is_stack_of_experts ? BP_DTYPE_MXFP4 : BP_DTYPE_Q8_0;
  const Role role = role_of(name, shape);
  const bool is_whole = fits(mixture.dtype, width) && !is_falcon(shape);
  if (role == kOutput && !is_whole && !is_plain(mixture.dtype)) return BP_DTYPE_Q8_0;
  const Place place = place_of(name, role, shape);
  for (const std::span<const Rule> rules : {mixture.rules, mixture.then}) {
    if (const Rule* rule = find_rule(rules, role, place, shape)) return rule->dtype;
  }
  return role == kOutput && !is_plain(mixture.dtype) ? BP_DTYPE_Q6_K : mixture.dtype;
}

// Values of large models take so little of them that more bits cost nothing.
bp_dtype of_large_model(const Mixture& mixture, const ModelShape& shape, std::string_view name,
                        bp_dtype dtype) {
  const bool has_few_bits = dtype == BP_DTYPE_Q3_K || dtype == BP_DTYPE_Q4_K;
  const bool is_value = role_of(name, shape) == kAttnV;
  const bool gains = is_value && has_few_bits && is_70b(shape) && !is_of_two_bits(mixture.dtype);
  return gains ? BP_DTYPE_Q5_K : dtype;
}

// A type of blocks of 32 that takes no fewer bits, for rows that are no multiple of 256.
bp_dtype of_small_blocks(bp_dtype dtype) {
  switch (dtype) {
    case BP_DTYPE_TQ1_0:
    case BP_DTYPE_TQ2_0:
    case BP_DTYPE_Q1_0:
    case BP_DTYPE_Q2_0:
    case BP_DTYPE_NVFP4:
      return BP_DTYPE_Q4_0;
    case BP_DTYPE_Q4_K:
      return BP_DTYPE_Q5_0;
    case BP_DTYPE_Q5_K:
      return BP_DTYPE_Q5_1;
    case BP_DTYPE_Q6_K:
      return BP_DTYPE_Q8_0;
    default:
      return BP_DTYPE_IQ4_NL;
  }
}

bool same_but_for_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::toupper(x) == std::toupper(y); });
}

}  // namespace

std::vector<std::string> mixture_names() {
  std::vector<std::string> names;
  for (const Mixture& mixture : kMixtures) names.emplace_back(mixture.name);
  return names;
}

Result<const Mixture*> find_mixture(std::string_view name) {
  // What people call the middle one of each family.
  constexpr std::pair<std::string_view, std::string_view> kShort[] = {
      {"Q3_K", "Q3_K_M"}, {"Q4_K", "Q4_K_M"}, {"Q5_K", "Q5_K_M"}};
  for (const auto& [from, to] : kShort) {
    if (same_but_for_case(name, from)) name = to;
  }
  for (const Mixture& mixture : kMixtures) {
    if (same_but_for_case(name, mixture.name)) return &mixture;
  }
  std::string upper(name);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return invalid_argument("type '" + std::string(name) + "' is unknown" +
                          base::nearest_hint(upper, mixture_names()));
}

bool is_quantised(std::string_view name, size_t n_dims) {
  if (n_dims < 2 || !name.ends_with("weight")) return false;
  return std::ranges::none_of(
      kKept, [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

std::optional<uint32_t> value_layer(std::string_view name) {
  constexpr std::string_view kNames[] = {".attn_v.weight", ".attn_qkv.weight", ".attn_kv_b.weight"};
  const bool is_value =
      std::ranges::any_of(kNames, [&](std::string_view end) { return name.ends_with(end); });
  if (!is_value || !name.starts_with("blk.")) return std::nullopt;
  return layer_of(name);
}

ChosenType of_width(bp_dtype wanted, uint64_t width) {
  if (fits(wanted, width)) return {wanted, wanted};
  const bp_dtype smaller = of_small_blocks(wanted);
  return {fits(smaller, width) ? smaller : BP_DTYPE_F16, wanted};
}

ChosenType choose_type(const Mixture& mixture, const ModelShape& shape, std::string_view name,
                       uint64_t width, bool is_stack_of_experts) {
  const bp_dtype wanted = wanted_type(mixture, shape, name, width, is_stack_of_experts);
  return of_width(of_large_model(mixture, shape, name, wanted), width);
}

}  // namespace bp::quantize
