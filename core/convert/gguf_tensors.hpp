#pragma once
// The tensors of a model in another dialect as those of a GGUF file: their names, types and layouts
// first, their bytes one by one, from one layer of the source at a time.

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/ext/threads.h"
#include "core/convert/gguf_names.hpp"
#include "core/convert/gguf_writer.hpp"
#include "core/model/parameters.hpp"
#include "core/model/tensors.hpp"

namespace bp::convert {

class GgufTensors {
 public:
  // Refers to all of them. scope: with the hyper-parameters of `file`.
  GgufTensors(model::ModelFile& file, const model::ArchitectureChoice& choice,
              model::ModelScope& scope, const bp_threads* threads);

  // What is to be the tensor of a weight, before plan().
  void give(const std::string& weight, std::vector<float> values) {
    given_[weight] = std::move(values);
  }
  // rope_pairing of GGUF files of this architecture, and their scope for numbers added to norms.
  // Matrices keep their type, all else is f32.
  Result<std::vector<GgufTensor>> plan(int64_t n_layers, const std::string& pairing,
                                       const model::Scope& written);
  // Tensors of the source that are in none of the plan's and that the architecture does not ignore.
  [[nodiscard]] const std::vector<std::string>& unused() const { return unused_; }
  // Tensor i of the plan, without gaps, to `out`.
  Status make(size_t i, void* out);

  // Values of a planned weight that no tensor of the source holds; none for any other.
  [[nodiscard]] std::vector<float> given(const std::string& weight) const {
    const auto found = given_.find(weight);
    return found == given_.end() ? std::vector<float>() : found->second;
  }

 private:
  // A layer of the source bound to its weights; parts are those of all layers that the binder had.
  struct Layer {
    int64_t index;
    model::ProgramParts parts;
    std::map<std::string, uint32_t> weights;
    model::Binding binding;
    std::optional<model::TensorBinder> binder;
  };
  struct Planned {
    NamedWeight weight;
    GgufTensor tensor;
    float added = 0;     // to every value
    bool turns = false;  // rows of heads, halves to pairs
  };

  // The layer bound before gives its memory back.
  Status bind(int64_t layer, model::Binding binding);
  [[nodiscard]] Status check_places(const std::vector<NamedWeight>& names, int64_t n_layers) const;
  [[nodiscard]] Status check_place(const model::WeightSpec& spec, int64_t layer,
                                   const std::set<std::string_view>& written) const;
  Status plan_layer(std::span<const NamedWeight> names, const std::string& pairing,
                    const model::Scope& written);
  Status plan_values(const NamedWeight& weight);
  [[nodiscard]] std::vector<uint64_t> source_dims(const NamedWeight& weight) const;
  Status add(Planned planned, const bp_weight_part& part, uint64_t n_rows);
  [[nodiscard]] const bp_weight_part* part_of(const std::string& weight) const;
  [[nodiscard]] bool is_taken_apart(const std::string& weight) const;
  Result<std::vector<const std::byte*>> rows_of(const Planned& planned) const;
  Status turn(std::vector<const std::byte*>& rows) const;

  model::ModelFile& file_;
  const model::ArchitectureChoice& choice_;
  model::ModelScope& scope_;
  const bp_threads* threads_;
  std::map<std::string, model::PlacedExpression> norm_offsets_;
  std::map<std::string, uint32_t> model_weights_;
  std::optional<Layer> layer_;
  std::vector<Planned> planned_;
  std::vector<std::string> unused_;
  std::set<std::string> planned_names_;
  std::map<std::string, std::vector<float>> given_;  // by weight
};

}  // namespace bp::convert
