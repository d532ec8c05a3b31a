#include "core/model/declarations.hpp"

#include <algorithm>
#include <set>

#include "core/base/nearest.hpp"

namespace bp::model {

namespace {

using base::Yaml;

const std::set<std::string> kRopeFields = {"n_dims",           "base",
                                           "scaling",          "factor",
                                           "original_context", "context",
                                           "short_divisors",   "long_divisors",
                                           "beta_fast",        "beta_slow",
                                           "extrapolation",    "truncate",
                                           "attention_factor", "attention_multiplier",
                                           "mscale",           "mscale_all_dim",
                                           "low_freq_factor",  "high_freq_factor"};

// One string or a list of them.
Result<std::vector<std::string>> one_or_more(const Yaml& node) {
  if (node.is_list()) return node.as_strings();
  BP_ASSIGN(std::string text, node.as_string());
  return std::vector<std::string>{std::move(text)};
}

bool is_dialect(const std::string& key) {
  return key == "gguf" || key == "huggingface";
}

// "a.{b,c}.d" -> "a.b.d", "a.c.d"; braces without a comma stay, being what is filled in later.
void add_alternatives(const std::string& name, std::vector<std::string>& names) {
  const size_t comma = name.find(',');
  const size_t open = comma == std::string::npos ? comma : name.rfind('{', comma);
  const size_t close = name.find('}', comma);
  if (open == std::string::npos || close == std::string::npos) {
    names.push_back(name);
    return;
  }
  for (size_t at = open; at < close;) {
    const size_t end = std::min(name.find(',', at + 1), close);
    names.push_back(name.substr(0, open) + name.substr(at + 1, end - at - 1) +
                    name.substr(close + 1));
    at = end;
  }
}

Result<PlacedExpression> required_expression(const Yaml& node, const std::string& key) {
  BP_ASSIGN(auto found, PlacedExpression::find(node, key));
  if (!found) return node.error("needs the key " + key);
  return *std::move(found);
}

Result<ParameterType> parameter_type(const Yaml& node) {
  BP_ASSIGN(const std::string text, text_or(node, "type", "int"));
  if (text == "int") return ParameterType::kInt;
  if (text == "float") return ParameterType::kFloat;
  if (text == "bool") return ParameterType::kBool;
  if (text == "string") return ParameterType::kString;
  return node.find("type")->error("must be int, float, bool or string, not '" + text + "'");
}

// A name, or a map with one `name` or more and how to rearrange what they name.
Status parse_source(const Yaml& node, std::vector<TensorSource>& sources) {
  const auto inner = node.is_map() ? node.find("name") : std::optional(node);
  if (!inner) return node.error("needs the key name");
  BP_ASSIGN(const auto given, one_or_more(*inner));
  std::optional<Arrangement> arrangement;
  if (node.is_map()) {
    BP_ASSIGN(arrangement, Arrangement::parse(node));
  }
  std::vector<std::string> names;
  for (const std::string& name : given) add_alternatives(name, names);
  for (std::string& name : names) sources.push_back({std::move(name), arrangement});
  return {};
}

Status parse_sources(const Yaml& node, WeightSpec& spec) {
  BP_ASSIGN(const auto members, node.members());
  for (const auto& [dialect, value] : members) {
    if (!is_dialect(dialect) || value.is_null()) continue;
    auto& sources = spec.sources[dialect];
    if (!value.is_list()) {
      BP_TRY(parse_source(value, sources));
      continue;
    }
    BP_ASSIGN(const auto items, value.items());
    for (const Yaml& item : items) BP_TRY(parse_source(item, sources));
  }
  return {};
}

bool has_layer_index(const WeightSpec& spec) {
  return std::ranges::any_of(spec.sources, [](const auto& dialect) {
    return std::ranges::any_of(dialect.second, [](const TensorSource& source) {
      return source.name.find("{i}") != std::string::npos;
    });
  });
}

// "n_ff, dim": expressions separated by commas outside of parentheses.
Result<std::vector<PlacedExpression>> parse_shape(const Yaml& node) {
  BP_ASSIGN(const std::string text, node.as_string());
  std::vector<PlacedExpression> shape;
  size_t begin = 0;
  int depth = 0;
  for (size_t at = 0; at <= text.size(); ++at) {
    const char c = at < text.size() ? text[at] : ',';
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (c != ',' || (depth > 0 && at < text.size())) continue;
    auto dim = Expression::parse(text.substr(begin, at - begin));
    if (!dim.ok()) return node.error(dim.status().message());
    shape.push_back({node, *std::move(dim)});
    begin = at + 1;
  }
  return shape;
}

}  // namespace

Result<std::string> text_or(const Yaml& node, const std::string& key, const std::string& fallback) {
  const auto member = node.find(key);
  return member ? member->as_string() : Result<std::string>(fallback);
}

Result<DialectNames> dialect_names(const Yaml& node) {
  DialectNames names;
  BP_ASSIGN(const auto members, node.members());
  for (const auto& [key, value] : members) {
    if (!is_dialect(key) || value.is_null()) continue;
    BP_ASSIGN(const auto given, one_or_more(value));
    for (const std::string& name : given) add_alternatives(name, names[key]);
  }
  return names;
}

Result<ParameterSpec> parse_parameter(const std::string& name, const Yaml& node) {
  BP_TRY(node.expect_keys({"type", "per_layer", "list", "gguf", "huggingface", "default", "if_null",
                           "min", "max", "values", "written"}));
  ParameterSpec spec{node, name, {}, false, false, {}, {}, {}, {}, {}, {}, {}};
  BP_ASSIGN(spec.type, parameter_type(node));
  if (const auto flag = node.find("per_layer")) {
    BP_ASSIGN(spec.per_layer, flag->as_bool());
  }
  if (const auto flag = node.find("list")) {
    BP_ASSIGN(spec.is_list, flag->as_bool());
  }
  BP_ASSIGN(spec.keys, dialect_names(node));
  BP_ASSIGN(spec.fallback, PlacedExpression::find(node, "default"));
  BP_ASSIGN(spec.if_null, PlacedExpression::find(node, "if_null"));
  BP_ASSIGN(spec.min, PlacedExpression::find(node, "min"));
  BP_ASSIGN(spec.max, PlacedExpression::find(node, "max"));
  BP_ASSIGN(spec.written, PlacedExpression::find(node, "written"));
  if (const auto values = node.find("values")) {
    BP_ASSIGN(const auto members, values->members());
    for (const auto& [from, to] : members) {
      BP_ASSIGN(spec.values[from], to.as_string());
    }
  }
  return spec;
}

Result<WeightSpec> parse_weight(const std::string& name, const Yaml& node) {
  BP_TRY(node.expect_keys(
      {"gguf", "huggingface", "shape", "optional", "fallback", "packs", "values", "made_of"}));
  WeightSpec spec{node, name, false, {}, {}, {}, {}, {}, {}, {}, {}};
  BP_TRY(parse_sources(node, spec));
  spec.per_layer = has_layer_index(spec);
  const auto shape = node.find("shape");
  if (!shape) return node.error("needs the key shape");
  BP_ASSIGN(spec.shape, parse_shape(*shape));
  BP_ASSIGN(spec.optional, PlacedExpression::find(node, "optional"));
  BP_ASSIGN(spec.fallback, text_or(node, "fallback", ""));
  if (const auto packs = node.find("packs")) {
    BP_ASSIGN(spec.packs, packs->as_strings());
  }
  BP_ASSIGN(spec.values, PlacedExpression::find(node, "values"));
  if (const auto made_of = node.find("made_of")) {
    BP_ASSIGN(spec.made_of, text_or(*made_of, "name", ""));
    BP_ASSIGN(spec.made_by, Arrangement::parse(*made_of));
  }
  return spec;
}

Result<RopeSpec> parse_rope(const std::string& name, const Yaml& node) {
  RopeSpec spec{node, name, {}, {}, {}};
  BP_ASSIGN(const auto members, node.members());
  for (const auto& [key, value] : members) {
    if (key == "magnitude") {
      BP_ASSIGN(spec.magnitude, value.as_string());
    } else if (key == "divisors") {
      BP_ASSIGN(spec.divisors, value.as_string());
    } else if (kRopeFields.count(key) != 0) {
      BP_ASSIGN(PlacedExpression expression, PlacedExpression::parse(value));
      spec.fields.emplace(key, std::move(expression));
    } else {
      return value.error("unknown key" +
                         base::nearest_hint(key, {kRopeFields.begin(), kRopeFields.end()}));
    }
  }
  for (const char* key : {"n_dims", "base"}) {
    if (spec.fields.count(key) == 0) return node.error(std::string("needs the key ") + key);
  }
  return spec;
}

Result<VectorSpec> parse_vector(const std::string& name, const Yaml& node) {
  BP_TRY(node.expect_keys({"n", "value", "when"}));
  BP_ASSIGN(PlacedExpression n, required_expression(node, "n"));
  BP_ASSIGN(PlacedExpression value, required_expression(node, "value"));
  BP_ASSIGN(auto when, PlacedExpression::find(node, "when"));
  return VectorSpec{node, name, std::move(n), std::move(value), std::move(when)};
}

Result<KvSlotSpec> parse_kv_slot(const std::string& name, const Yaml& node) {
  BP_TRY(node.expect_keys({"n_kv_heads", "k_head_dim", "v_head_dim", "window", "when"}));
  BP_ASSIGN(PlacedExpression heads, required_expression(node, "n_kv_heads"));
  BP_ASSIGN(PlacedExpression k, required_expression(node, "k_head_dim"));
  BP_ASSIGN(PlacedExpression v, required_expression(node, "v_head_dim"));
  BP_ASSIGN(auto window, PlacedExpression::find(node, "window"));
  BP_ASSIGN(auto when, PlacedExpression::find(node, "when"));
  return KvSlotSpec{
      node, name, std::move(heads), std::move(k), std::move(v), std::move(window), std::move(when)};
}

Result<StateSlotSpec> parse_state_slot(const std::string& name, const Yaml& node) {
  BP_TRY(node.expect_keys({"n_floats", "when"}));
  BP_ASSIGN(PlacedExpression n_floats, required_expression(node, "n_floats"));
  BP_ASSIGN(auto when, PlacedExpression::find(node, "when"));
  return StateSlotSpec{node, name, std::move(n_floats), std::move(when)};
}

}  // namespace bp::model
