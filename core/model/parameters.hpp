#pragma once
// Hyper-parameters of one model file, and the scope that expressions of its architecture see.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/model/architecture.hpp"
#include "core/model/model_file.hpp"
#include "core/model/value.hpp"

namespace bp::model {

using NamedValues = std::map<std::string, Value, std::less<>>;

// Names: the hyper-parameters, `dialect`, `i` in layers, and what lowering adds (KV slots,
// magnitudes). Functions: has(hyper-parameter or weight), rows(weight).
class ModelScope : public Scope {
 public:
  // Refers to both.
  ModelScope(const ModelFile& file, const Architecture& architecture);

  [[nodiscard]] std::optional<Value> find(std::string_view name) const override;
  [[nodiscard]] std::optional<Value> query(std::string_view function,
                                           std::string_view name) const override;

  NamedValues values;
  // Metadata keys of the hyper-parameters that the file has, by name.
  std::map<std::string, std::string, std::less<>> keys;
  // Weights that has() knows, by name; null before they are bound.
  const std::map<std::string, uint32_t>* weights = nullptr;

 private:
  [[nodiscard]] std::optional<Value> has(std::string_view name) const;
  [[nodiscard]] std::optional<Value> rows(std::string_view weight) const;

  const ModelFile& file_;
  const Architecture& architecture_;
};

// Reads all hyper-parameters into scope.values and runs the model-wide checks. Errors name the
// model file, the parameter, its place in the architecture file, and its key in the model file or
// the keys tried.
Status read_parameters(const ModelFile& file, const ArchitectureChoice& choice, ModelScope& scope);

// Runs checks in a scope; the error names the check's place and the values of the names in it,
// with their keys.
Status run_checks(const std::vector<PlacedExpression>& checks, const ModelFile& file,
                  const ModelScope& scope);

// Replaces every `pattern` in `text`.
std::string replace_all(std::string text, const std::string& pattern, const std::string& with);

}  // namespace bp::model
