#include "core/model/architecture.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "core/model/declarations.hpp"

namespace bp::model {

namespace {

namespace fs = std::filesystem;
using base::Yaml;

constexpr int64_t kSchema = 1;

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
