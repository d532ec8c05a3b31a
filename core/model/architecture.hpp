#pragma once
// configs/architectures/NAME.yaml: what a model of an architecture must contain, and its program.
// Parsed here; read against a model file by parameters.hpp, tensors.hpp and lowering.hpp.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/model/arrangement.hpp"
#include "core/model/op_entry.hpp"

namespace bp::model {

class ModelFile;

// By dialect ("gguf", "huggingface"): alternatives in order of preference.
using DialectNames = std::map<std::string, std::vector<std::string>, std::less<>>;

enum class ParameterType { kInt, kFloat, kBool, kString };

// A hyper-parameter. "{arch}" in a key stands for the file's name of the architecture.
struct ParameterSpec {
  base::Yaml place;
  std::string name;
  ParameterType type = ParameterType::kInt;
  bool per_layer = false;  // a list of n_layers; a scalar in the file holds for all of them
  bool is_list = false;    // a list of any length
  DialectNames keys;
  std::optional<PlacedExpression> fallback;  // `default:`
  std::optional<PlacedExpression> if_null;   // of a key that the file has without a value
  std::optional<PlacedExpression> min, max;  // inclusive; without min a number must be positive
  std::map<std::string, std::string>
      values;                               // of strings: as in the file to as meant; or empty: all
  std::optional<PlacedExpression> written;  // what a written GGUF file says; none: nothing
};

// A tensor. "{i}" in a name stands for the layer, and makes one weight for each.
// A tensor that can be a weight, as it is or copied into another order.
struct TensorSource {
  std::string name;
  std::optional<Arrangement> arrangement;
};

struct WeightSpec {
  base::Yaml place;
  std::string name;
  bool per_layer = false;
  // By dialect, in order of preference.
  std::map<std::string, std::vector<TensorSource>, std::less<>> sources;
  std::vector<PlacedExpression> shape;
  std::optional<PlacedExpression> optional;
  std::string fallback;  // the weight that stands in for an absent one, or empty

  // For writing GGUF files from another dialect.
  std::vector<std::string> packs;          // weights whose rows stand behind this one's there
  std::optional<PlacedExpression> values;  // a list of numbers, where no tensor holds them
  std::string made_of;                     // the weight that this one is a rearrangement of
  std::optional<Arrangement> made_by;      // and how: rows, then transposed
};

// A rotary frequency table, made by the core, which ops use as a weight.
struct RopeSpec {
  base::Yaml place;
  std::string name;
  std::string magnitude;                           // the name that its magnitude gets
  std::string divisors;                            // a weight, or empty
  std::map<std::string, PlacedExpression> fields;  // of RopeParameters
};

// Numbers by an expression of their index k, which ops use as a weight.
struct VectorSpec {
  base::Yaml place;
  std::string name;
  PlacedExpression n, value;
  std::optional<PlacedExpression> when;  // otherwise absent
};

struct KvSlotSpec {
  base::Yaml place;
  std::string name;
  PlacedExpression n_kv_heads, k_head_dim, v_head_dim;
  std::optional<PlacedExpression> window, when;
};

struct StateSlotSpec {
  base::Yaml place;
  std::string name;
  PlacedExpression n_floats;  // of one sequence
  std::optional<PlacedExpression> when;
};

struct LayerSpec {
  std::vector<std::string> carries;  // variables that one layer hands to the next
  std::vector<PlacedExpression> checks;
  std::vector<KvSlotSpec> kv_slots;
  std::vector<StateSlotSpec> state_slots;
  std::vector<OpEntry> ops;
};

struct Architecture {
  std::string id;    // the file's name without .yaml
  std::string path;  // of the file
  DialectNames names;
  // Where models can have other parts than text (vision): the section of config.json that is about
  // the text; otherwise empty.
  std::string text_section;
  std::vector<ParameterSpec> parameters;  // in any order
  std::vector<PlacedExpression> checks;
  std::vector<WeightSpec> weights;
  std::vector<RopeSpec> ropes;
  std::vector<VectorSpec> vectors;
  std::vector<OpEntry> prologue, epilogue;
  std::string ids;  // the variable that holds the token ids
  LayerSpec layer;
  std::vector<std::string> outputs;  // variables
  DialectNames ignored;              // tensors that may be there unused, `*` for any text
  std::map<std::string, PlacedExpression> gguf_metadata;  // written for other readers

  static Result<Architecture> load_file(const std::string& path);
  // Only what models call it, which is quick.
  static Result<DialectNames> names_of_file(const std::string& path);
  // Looks for keys in the text's section first, and for tensors by the names that they have beside
  // those of other parts: "language_model.model.norm.weight", "model.language_model.norm.weight".
  void read_text_section();
  // Included files are looked for beside `path`.
  static Result<Architecture> load_text(const std::string& text, const std::string& path);
};

// An architecture as one model file asks for it.
struct ArchitectureChoice {
  Architecture architecture;
  std::string name;  // as in the file, for "{arch}"
};

// What the file calls its architecture, at least one name, the most precise first.
Result<std::vector<std::string>> architecture_names(const ModelFile& file);

// The one in `folders` (in order of precedence) whose names hold the model's. An unknown name's
// error gives the nearest known one.
Result<ArchitectureChoice> find_architecture(const ModelFile& file,
                                             const std::vector<std::string>& folders);

}  // namespace bp::model
