#include "core/model/architecture.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include <fmt/format.h>

#include "core/base/nearest.hpp"

namespace bp::model {

namespace {

namespace fs = std::filesystem;
using base::Yaml;

constexpr int64_t kSchema = 1;

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

Result<std::string> text_or(const Yaml& node, const std::string& key, const std::string& fallback) {
  const auto member = node.find(key);
  return member ? member->as_string() : Result<std::string>(fallback);
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

// Members of `node` that are named like a dialect.
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

Result<PlacedExpression> required_expression(const Yaml& node, const std::string& key) {
  BP_ASSIGN(auto found, PlacedExpression::find(node, key));
  if (!found) return node.error("needs the key " + key);
  return *std::move(found);
}

Result<std::vector<PlacedExpression>> expressions(const Yaml& node, const std::string& key) {
  std::vector<PlacedExpression> out;
  const auto list = node.find(key);
  if (!list) return out;
  BP_ASSIGN(const auto items, list->items());
  for (const Yaml& item : items) {
    BP_ASSIGN(PlacedExpression expression, PlacedExpression::parse(item));
    out.push_back(std::move(expression));
  }
  return out;
}

Result<ParameterType> parameter_type(const Yaml& node) {
  BP_ASSIGN(const std::string text, text_or(node, "type", "int"));
  if (text == "int") return ParameterType::kInt;
  if (text == "float") return ParameterType::kFloat;
  if (text == "bool") return ParameterType::kBool;
  if (text == "string") return ParameterType::kString;
  return node.find("type")->error("must be int, float, bool or string, not '" + text + "'");
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

// Each member of the map `key` of `node` by `parse`. The first `n_included` of `out` are others'
// declarations, which one of the same name replaces in its place; the rest must be unique.
template <class Spec, class Parse>
Status parse_named(const Yaml& node, const std::string& key, Parse parse, std::vector<Spec>& out,
                   size_t n_included = 0) {
  const auto map = node.find(key);
  if (!map) return {};
  BP_ASSIGN(const auto members, map->members());
  for (const auto& [name, value] : members) {
    const auto same = [&wanted = name](const Spec& spec) { return spec.name == wanted; };
    const auto earlier = std::find_if(out.begin(), out.end(), same);
    const auto place = static_cast<size_t>(earlier - out.begin());
    if (earlier != out.end() && place >= n_included) {
      return value.error(
          fmt::format("'{}' is declared already at {}", name, earlier->place.place()));
    }
    BP_ASSIGN(Spec spec, parse(name, value));
    if (earlier == out.end()) {
      out.push_back(std::move(spec));
    } else {
      *earlier = std::move(spec);
    }
  }
  return {};
}

Status parse_declarations(const Yaml& root, Architecture& out) {
  const size_t n_parameters = out.parameters.size(), n_weights = out.weights.size();
  BP_TRY(parse_named(root, "hyperparameters", parse_parameter, out.parameters, n_parameters));
  BP_TRY(parse_named(root, "weights", parse_weight, out.weights, n_weights));
  BP_TRY(parse_named(root, "rope", parse_rope, out.ropes, out.ropes.size()));
  return parse_named(root, "vectors", parse_vector, out.vectors, out.vectors.size());
}

// A file named in the architecture's, beside which it is looked for.
Result<Yaml> load_included(const Yaml& file, const Architecture& architecture) {
  BP_ASSIGN(const std::string name, file.as_string());
  auto included = Yaml::load_file((fs::path(architecture.path).parent_path() / name).string());
  return included.ok() ? included : Result<Yaml>(file.error(included.status().message()));
}

Status parse_includes(const Yaml& root, Architecture& out) {
  const auto includes = root.find("include");
  if (!includes) return {};
  BP_ASSIGN(const auto files, includes->items());
  for (const Yaml& file : files) {
    BP_ASSIGN(const Yaml included, load_included(file, out));
    BP_TRY(included.expect_keys({"hyperparameters", "weights", "rope", "vectors"}));
    BP_TRY(parse_declarations(included, out));
  }
  return {};
}

// A list of ops, in which `include: FILE` stands for the `ops` of that file; with `when` they are
// left out where it is false.
Result<std::vector<OpEntry>> parse_ops(const Yaml& node, const Architecture& architecture) {
  std::vector<OpEntry> ops;
  BP_ASSIGN(const auto items, node.items());
  for (const Yaml& item : items) {
    const auto file = item.find("include");
    if (!file) {
      BP_ASSIGN(OpEntry op, parse_op_entry(item));
      ops.push_back(std::move(op));
      continue;
    }
    BP_TRY(item.expect_keys({"include", "when"}));
    BP_ASSIGN(const auto when, PlacedExpression::find(item, "when"));
    BP_ASSIGN(const Yaml included, load_included(*file, architecture));
    BP_TRY(included.expect_keys({"ops"}));
    const auto list = included.find("ops");
    if (!list) return included.error("needs the key ops");
    BP_ASSIGN(auto entries, parse_op_entries(*list));
    for (OpEntry& entry : entries) entry.include_when = when;
    std::move(entries.begin(), entries.end(), std::back_inserter(ops));
  }
  return ops;
}

Result<LayerSpec> parse_layer(const Yaml& node, const Architecture& architecture) {
  BP_TRY(node.expect_keys({"carries", "checks", "kv_slots", "state_slots", "ops"}));
  LayerSpec layer;
  if (const auto carries = node.find("carries")) {
    BP_ASSIGN(layer.carries, carries->as_strings());
  }
  BP_ASSIGN(layer.checks, expressions(node, "checks"));
  BP_TRY(parse_named(node, "kv_slots", parse_kv_slot, layer.kv_slots));
  BP_TRY(parse_named(node, "state_slots", parse_state_slot, layer.state_slots));
  const auto ops = node.find("ops");
  if (!ops) return node.error("needs the key ops");
  BP_ASSIGN(layer.ops, parse_ops(*ops, architecture));
  return layer;
}

Status parse_program(const Yaml& root, Architecture& out) {
  for (const char* key : {"inputs", "prologue", "layer", "epilogue", "outputs"}) {
    if (!root.find(key)) return root.error(std::string("needs the key ") + key);
  }
  const Yaml inputs = *root.find("inputs");
  BP_ASSIGN(const auto names, inputs.as_strings());
  if (names.size() != 1) return inputs.error("must name one variable, for the token ids");
  out.ids = names[0];
  BP_ASSIGN(out.prologue, parse_ops(*root.find("prologue"), out));
  BP_ASSIGN(out.layer, parse_layer(*root.find("layer"), out));
  BP_ASSIGN(out.epilogue, parse_ops(*root.find("epilogue"), out));
  BP_ASSIGN(out.outputs, root.find("outputs")->as_strings());
  return {};
}

Status check_schema(const Yaml& root) {
  const auto schema = root.find("schema");
  if (!schema) return root.error("needs the key schema");
  BP_ASSIGN(const int64_t version, schema->as_int(1, INT32_MAX));
  if (version == kSchema) return {};
  return schema->error(fmt::format("{} is newer than this program knows ({})", version, kSchema));
}

Result<DialectNames> parse_names(const Yaml& root) {
  const auto names = root.find("names");
  if (!names) return root.error("needs the key names");
  BP_TRY(names->expect_keys({"gguf", "huggingface"}));
  return dialect_names(*names);
}

Result<Architecture> parse_architecture(const Yaml& root, const std::string& path) {
  BP_TRY(root.expect_keys({"schema", "names", "include", "hyperparameters", "checks", "weights",
                           "rope", "vectors", "inputs", "prologue", "layer", "epilogue", "outputs",
                           "ignore", "gguf_metadata", "text_section"}));
  BP_TRY(check_schema(root));
  Architecture out;
  out.path = path;
  out.id = fs::path(path).stem().string();
  BP_ASSIGN(out.names, parse_names(root));
  BP_ASSIGN(out.text_section, text_or(root, "text_section", ""));
  BP_TRY(parse_includes(root, out));
  BP_TRY(parse_declarations(root, out));
  BP_ASSIGN(out.checks, expressions(root, "checks"));
  if (const auto ignore = root.find("ignore")) {
    BP_TRY(ignore->expect_keys({"gguf", "huggingface"}));
    BP_ASSIGN(out.ignored, dialect_names(*ignore));
  }
  if (const auto metadata = root.find("gguf_metadata")) {
    BP_ASSIGN(const auto members, metadata->members());
    for (const auto& [key, value] : members) {
      BP_ASSIGN(PlacedExpression expression, PlacedExpression::parse(value));
      out.gguf_metadata.emplace(key, std::move(expression));
    }
  }
  BP_TRY(parse_program(root, out));
  return out;
}

}  // namespace

Result<Architecture> Architecture::load_file(const std::string& path) {
  BP_ASSIGN(const Yaml root, Yaml::load_file(path));
  return parse_architecture(root, path);
}

void Architecture::read_text_section() {
  constexpr std::string_view kConfig = "config.", kModel = "model.", kPart = "language_model.";
  for (ParameterSpec& spec : parameters) {
    const auto keys = spec.keys.find("huggingface");
    if (keys == spec.keys.end()) continue;
    std::vector<std::string> inner;
    for (const std::string& key : keys->second) {
      if (!key.starts_with(kConfig)) continue;
      inner.push_back(fmt::format("{}{}.{}", kConfig, text_section, key.substr(kConfig.size())));
    }
    keys->second.insert(keys->second.begin(), inner.begin(), inner.end());
  }
  for (WeightSpec& spec : weights) {
    const auto sources = spec.sources.find("huggingface");
    if (sources == spec.sources.end()) continue;
    std::vector<TensorSource> all;
    for (const TensorSource& source : sources->second) {
      all.push_back({std::string(kPart) + source.name, source.arrangement});
      if (source.name.starts_with(kModel)) {
        all.push_back({fmt::format("{}{}{}", kModel, kPart, source.name.substr(kModel.size())),
                       source.arrangement});
      }
      all.push_back(source);
    }
    sources->second = std::move(all);
  }
}

// Files begin with their names, so that most need not be parsed to their end.
Result<DialectNames> Architecture::names_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string head;
  for (std::string line; std::getline(in, line) && line.rfind("include:", 0) != 0;) {
    head += line + "\n";
  }
  auto root = Yaml::load_text(head, path);
  if (!root.ok() || !root->find("names")) root = Yaml::load_file(path);
  if (!root.ok()) return root.status();
  BP_TRY(check_schema(*root));
  return parse_names(*root);
}

Result<Architecture> Architecture::load_text(const std::string& text, const std::string& path) {
  BP_ASSIGN(const Yaml root, Yaml::load_text(text, path));
  return parse_architecture(root, path);
}

}  // namespace bp::model
