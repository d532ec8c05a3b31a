#pragma once
// Weights of an architecture bound to tensors of a model file.

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/model/model_file.hpp"
#include "core/model/parameters.hpp"
#include "core/model/program.hpp"
#include "core/quantize/mixture.hpp"
#include "core/quantize/rows.hpp"

namespace bp::model {

// Weights are quantised as they are bound, by the rules that `backplane quantize` has for files.
struct QuantizeAtLoad {
  const quantize::Mixture* mixture = nullptr;  // null: they stay as they are
  const bp_threads* threads = nullptr;         // may be null
};

class TensorBinder {
 public:
  // Refers to all of them; weights are added to `parts`.
  TensorBinder(ModelFile& file, const ArchitectureChoice& choice, ModelScope& scope,
               ProgramParts& parts, const QuantizeAtLoad& quantize)
      : file_(file),
        architecture_(choice.architecture),
        scope_(scope),
        parts_(parts),
        quantize_(quantize) {}

  // Binds the weights of the model (layer -1) or of a layer, and makes has() know them. Errors
  // name the model, the tensor, the weight's place, and expected and found shape.
  Status bind(int64_t layer, std::map<std::string, uint32_t>& weights);

  // Tensors that no weight took and that the architecture does not ignore.
  [[nodiscard]] std::vector<std::string> unused() const;

 private:
  Status bind_one(const WeightSpec& spec, int64_t layer, std::map<std::string, uint32_t>& weights);
  Result<uint32_t> bind_tensor(const WeightSpec& spec, const bp_tensor& tensor);
  // BP_NONE where the tensor, or the first to be stacked, is not there.
  Result<uint32_t> bind_arranged(const WeightSpec& spec, const Arrangement& arrangement,
                                 const std::string& name);
  Result<std::vector<uint64_t>> expected_dims(const WeightSpec& spec) const;
  // The dimensions that the tensor has as this weight.
  Result<std::vector<uint64_t>> check(const WeightSpec& spec, const std::string& tensor,
                                      bp_dtype dtype, std::span<const uint64_t> dims) const;
  Result<uint32_t> add(const bp_tensor& tensor, std::span<const uint64_t> dims);
  uint32_t add(const std::string& name, const ArrangedTensor& tensor,
               std::span<const uint64_t> dims);
  // Replaces the data of a weight just bound, once, where the mixture has a type for it.
  Status quantise(const WeightSpec& spec, int64_t layer, uint32_t weight);
  [[nodiscard]] quantize::ModelShape shape() const;
  [[nodiscard]] std::vector<std::string> names_of(const WeightSpec& spec, std::string_view dialect,
                                                  int64_t layer) const;
  [[nodiscard]] bool is_ignored(std::string_view name) const;

  ModelFile& file_;
  const Architecture& architecture_;
  ModelScope& scope_;
  ProgramParts& parts_;
  const QuantizeAtLoad quantize_;
  std::set<uint32_t> quantised_;                          // weight indices that were looked at
  std::unordered_map<const bp_tensor*, uint32_t> bound_;  // to weight indices; BP_NONE: copied
};

}  // namespace bp::model
