#pragma once
// Weights of an architecture bound to tensors of a model file.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/work_progress.hpp"
#include "core/model/arrangement.hpp"
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

enum class Binding : uint8_t {
  kData,
  kShapes,  // no byte is read, and parts have no data
};

class TensorBinder {
 public:
  // Refers to all of them; weights are added to `parts`. progress may be null.
  TensorBinder(ModelFile& file, const ArchitectureChoice& choice, ModelScope& scope,
               ProgramParts& parts, const QuantizeAtLoad& quantize,
               Binding binding = Binding::kData, const bp_progress* progress = nullptr);

  // Binds the weights of the model (layer -1) or of a layer, and makes has() know them. Errors
  // name the model, the tensor, the weight's place, and expected and found shape.
  Status bind(int64_t layer, std::map<std::string, uint32_t>& weights);

  // Gives back what data was read of the file; the weights that are not copies lose theirs.
  void release();

  // Tensors that no weight took and that the architecture does not ignore.
  [[nodiscard]] std::vector<std::string> unused() const;

  // Refuses files with a scale of a weight bound so far (`X.scale` or `X.weight_scale` beside
  // `X.weight`) that is no weight itself: products would lack it.
  [[nodiscard]] Status check_scales() const;

 private:
  Status bind_one(const WeightSpec& spec, int64_t layer, std::map<std::string, uint32_t>& weights);
  Result<uint32_t> bind_tensor(const WeightSpec& spec, const bp_tensor& tensor);
  // BP_NONE where the tensor, or the first to be stacked, is not there.
  Result<uint32_t> bind_arranged(const WeightSpec& spec, const Arrangement& arrangement,
                                 const std::string& name, int64_t layer);
  Result<ArrangedTensor> arranged(const Arrangement& arrangement,
                                  const std::vector<const bp_tensor*>& parts);
  // Gives a tensor back that was copied, unless a weight has it itself: at once, or with the layer
  // where another weight is a part of it too.
  void let_go(const bp_tensor& tensor, int64_t layer);
  Result<std::vector<uint64_t>> expected_dims(const WeightSpec& spec) const;
  // The dimensions that the tensor has as this weight.
  Result<std::vector<uint64_t>> check(const WeightSpec& spec, const std::string& tensor,
                                      bp_dtype dtype, std::span<const uint64_t> dims) const;
  Result<uint32_t> add(const bp_tensor& tensor, std::span<const uint64_t> dims);
  uint32_t add(const std::string& name, const ArrangedTensor& tensor,
               std::span<const uint64_t> dims);
  // Once for each weight bound: quantises it where the mixture has a type for it.
  Status complete(const WeightSpec& spec, int64_t layer, uint32_t weight);
  // The weight's own where it stays as it is.
  [[nodiscard]] bp_dtype wanted_type(const WeightSpec& spec, int64_t layer, uint32_t weight);
  // Replaces the weight's data.
  Status quantise(uint32_t weight, bp_dtype dtype);
  // Frees what a weight was copied or read from, before its data are replaced.
  void free_source(uint32_t weight);
  [[nodiscard]] quantize::ModelShape shape() const;
  [[nodiscard]] bool has_values(int64_t layer) const;
  [[nodiscard]] std::vector<std::string> names_of(const WeightSpec& spec, std::string_view dialect,
                                                  int64_t layer) const;
  [[nodiscard]] bool is_ignored(std::string_view name) const;

  ModelFile& file_;
  const Architecture& architecture_;
  ModelScope& scope_;
  ProgramParts& parts_;
  const QuantizeAtLoad quantize_;
  const Binding binding_;
  base::WorkProgress progress_;                           // in elements
  std::vector<const bp_tensor*> let_go_later_;            // of the layer being bound
  std::optional<quantize::ModelShape> shape_;             // once it was asked for
  std::set<uint32_t> completed_;                          // weight indices
  std::unordered_map<const bp_tensor*, uint32_t> bound_;  // to weight indices; BP_NONE: copied
};

// A sentence about TensorBinder::unused(), with the first of them.
std::string unused_text(const std::vector<std::string>& names);

}  // namespace bp::model
