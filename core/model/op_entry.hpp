#pragma once
// One op as architecture files and op bodies write it: slots by name, attributes as expressions.
//
//   - op: norm
//     when: i > 0
//     name: attn_norm
//     in: {x: x, residual: residual}
//     out: {y: h, sum: residual}
//     weights: {weight: attn_norm}
//     attributes: {kind: rms, eps: norm_eps}
//
// A list names the first slots in order: `in: [x, residual]`. Names in `in` and `out` are
// variables: each write makes a new value, and a name may be written again. A variable or weight
// that is declared but absent may stand in an optional slot only.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/yaml.hpp"
#include "core/model/expression.hpp"
#include "core/model/program.hpp"

namespace bp::model {

// An expression and where it stands.
struct PlacedExpression {
  base::Yaml place;
  Expression expression;

  static Result<PlacedExpression> parse(const base::Yaml& node);
  // The member `name` of `node`; nullopt where absent.
  static Result<std::optional<PlacedExpression>> find(const base::Yaml& node,
                                                      const std::string& name);
  // Errors of evaluation at the expression's place.
  Result<Value> evaluate(const Scope& scope) const;
  Result<bool> condition(const Scope& scope) const;
  Result<int64_t> integer(const Scope& scope) const;
  Result<double> number(const Scope& scope) const;
};

struct SlotEntry {
  uint32_t slot;  // index into the schema's slots
  std::string name;
  base::Yaml place;
};

struct AttributeEntry {
  const AttributeSchema* field;
  PlacedExpression value;
};

struct OpEntry {
  base::Yaml place;
  const OpSchema* schema;
  std::string name;                                    // by default the op's kind
  std::optional<PlacedExpression> when, include_when;  // of itself, and of the file it stands in
  std::vector<SlotEntry> inputs, outputs, weights;
  std::vector<AttributeEntry> attributes;
  std::string row_output;  // of select_rows in architectures: the program output it serves
};

Result<OpEntry> parse_op_entry(const base::Yaml& node);
// A list of entries.
Result<std::vector<OpEntry>> parse_op_entries(const base::Yaml& node);

// What names in entries stand for; BP_NONE for what is declared but absent.
struct Bindings {
  std::map<std::string, uint32_t> values;
  std::map<std::string, uint32_t> weights;
};

// Appends the entry's op, unless its `when` is false, and binds the names of its outputs.
Status run_entry(const OpEntry& entry, const Scope& scope, const std::string& op_name,
                 uint32_t row_output, Bindings& bindings, ProgramParts& parts);

}  // namespace bp::model
