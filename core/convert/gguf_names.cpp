#include "core/convert/gguf_names.hpp"

#include <algorithm>

#include "core/model/parameters.hpp"

namespace bp::convert {

namespace {

using model::replace_all;
using model::WeightSpec;

// plain: only of tensors that are the weight as they are.
std::vector<std::string> names_of(const WeightSpec& spec, std::string_view dialect, int64_t layer,
                                  bool plain) {
  std::vector<std::string> names;
  const auto found = spec.sources.find(dialect);
  if (found == spec.sources.end()) return names;
  for (const model::TensorSource& source : found->second) {
    if (plain && source.arrangement) continue;
    names.push_back(replace_all(source.name, "{i}", std::to_string(layer)));
  }
  return names;
}

// The index of the name under which the file has the weight; their number where it has it not.
size_t find_name(const model::ModelFile& file, const std::vector<std::string>& names) {
  size_t i = 0;
  while (i < names.size() && !file.find_tensor(replace_all(names[i], "{n}", "0"))) ++i;
  return i;
}

}  // namespace

std::vector<NamedWeight> gguf_names(const model::ModelFile& file,
                                    const model::Architecture& architecture, int64_t n_layers) {
  std::vector<NamedWeight> out;
  for (int64_t layer = -1; layer < n_layers; ++layer) {
    for (const WeightSpec& spec : architecture.weights) {
      const auto gguf = names_of(spec, "gguf", layer, true);
      if (spec.per_layer != (layer >= 0) || gguf.empty()) continue;
      const auto sources = names_of(spec, file.dialect(), layer, false);
      const size_t i = find_name(file, sources);
      const bool is_made = spec.values || !spec.made_of.empty() ||
                           std::ranges::any_of(architecture.ropes, [&](const auto& rope) {
                             return rope.divisors == spec.name;
                           });
      if (i == sources.size() && !is_made) continue;
      // Alternatives of one dialect are those of the other where there are as many.
      const size_t k = gguf.size() == sources.size() && i < gguf.size() ? i : 0;
      const bool is_there = i < sources.size();
      const model::TensorSource* source =
          is_there ? &spec.sources.find(file.dialect())->second[i] : nullptr;
      out.push_back({&spec, source, layer, is_there ? sources[i] : "", gguf[k]});
    }
  }
  return out;
}

}  // namespace bp::convert
