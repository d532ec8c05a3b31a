#include "core/model/lowering.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "core/base/nearest.hpp"
#include "core/model/rope_parameters.hpp"
#include "core/model/rope_table.hpp"
#include "core/model/tensors.hpp"

namespace bp::model {

namespace {

class Lowering {
 public:
  Lowering(ModelFile& file, const ArchitectureChoice& choice, uint32_t context,
           const QuantizeAtLoad& quantize, const bp_progress* progress)
      : file_(file),
        choice_(choice),
        architecture_(choice.architecture),
        scope_(file, choice.architecture),
        binder_(file, choice, scope_, parts_, quantize, Binding::kData, progress) {
    scope_.values["context"] = static_cast<int64_t>(context);
  }

  Result<Lowered> run() {
    BP_TRY(read_parameters(file_, choice_, scope_));
    NamedValues parameters = scope_.values;
    parameters.erase("dialect");
    parameters.erase("context");
    BP_TRY(require_parameters());
    BP_TRY(check_context());
    BP_TRY(binder_.bind(-1, bindings_.weights));
    for (const RopeSpec& rope : architecture_.ropes) BP_TRY(add_rope(rope));
    for (const VectorSpec& vector : architecture_.vectors) BP_TRY(add_vector(vector));
    BP_TRY(add_prologue());
    for (int64_t i = 0; i < n_layers_; ++i) BP_TRY(add_layer(i));
    BP_TRY(add_ops(architecture_.epilogue, ""));
    BP_TRY(add_outputs());
    BP_TRY(check_all_read());
    BP_TRY(binder_.check_scales());
    std::vector<std::string> unused = binder_.unused();
    drop_unused_weights();
    auto program = Program::create(std::move(parts_));
    if (!program.ok()) return program.status().with_context(architecture_.path);
    return Lowered{*std::move(program), std::move(parameters), std::move(unused)};
  }

 private:
  Status require_parameters() {
    for (const char* name : {"n_layers", "context_length", "n_vocab"}) {
      const auto value = scope_.find(name);
      if (value && value->as_int()) continue;
      return invalid_argument(
          fmt::format("{}: needs the integer hyper-parameter {}", architecture_.path, name));
    }
    n_layers_ = *scope_.find("n_layers")->as_int();
    return {};
  }

  // Positions beyond an architecture's context_limit would need what it leaves out.
  Status check_context() const {
    const auto limit = scope_.find("context_limit");
    if (!limit || !limit->as_int()) return {};
    const int64_t asked = *scope_.find("context")->as_int();
    const int64_t context = asked == 0 ? *scope_.find("context_length")->as_int() : asked;
    if (context <= *limit->as_int()) return {};
    return unsupported(
        fmt::format("{}: contexts of more than {} tokens are not supported, and {} {}; set "
                    "`context` to at most {}",
                    file_.path(), *limit->as_int(),
                    asked == 0 ? "the model's has" : "asked for are", context, *limit->as_int()));
  }

  Result<std::vector<float>> read_floats(const base::Yaml& place, const std::string& name) const {
    std::vector<float> values;
    if (name.empty()) return values;
    const auto it = bindings_.weights.find(name);
    if (it == bindings_.weights.end()) {
      return place.error(fmt::format("weight '{}' is not declared", name));
    }
    if (it->second == BP_NONE) return values;
    const Weight& weight = parts_.weights[it->second];
    const bp_weight_part& part = weight.parts[0];
    if (part.dtype != BP_DTYPE_F32 || part.n_dims != 1) {
      return invalid_argument(fmt::format("{}: tensor '{}' ({}) must be a row of f32", file_.path(),
                                          weight.name, place.place()));
    }
    values.resize(part.dims[0]);
    std::memcpy(values.data(), part.data, values.size() * sizeof(float));
    return values;
  }

  Status add_rope(const RopeSpec& spec) {
    BP_ASSIGN(const RopeParameters p,
              rope_parameters(spec, scope_, [this](const auto& place, const auto& weight) {
                return read_floats(place, weight);
              }));
    auto table = make_rope_table(p);
    if (!table.ok()) {
      return table.status().with_context(
          fmt::format("{}: rope {} ({})", file_.path(), spec.name, spec.place.place()));
    }
    add_floats(spec.name, std::move(table->inv_freq));
    if (!spec.magnitude.empty()) scope_.values[spec.magnitude] = table->magnitude;
    return {};
  }

  Status add_vector(const VectorSpec& spec) {
    constexpr int64_t kMost = 65536;
    bindings_.weights[spec.name] = BP_NONE;
    BP_ASSIGN(const bool wanted, is_wanted(spec.when));
    if (!wanted) return {};
    BP_ASSIGN(const int64_t n, spec.n.integer(scope_));
    if (n < 1 || n > kMost) return spec.n.place.error(fmt::format("{} is out of range", n));
    std::vector<float> values;
    for (int64_t k = 0; k < n; ++k) {
      scope_.values["k"] = k;
      const auto value = spec.value.number(scope_);
      scope_.values.erase("k");
      if (!value.ok()) return value.status();
      values.push_back(static_cast<float>(*value));
    }
    add_floats(spec.name, std::move(values));
    return {};
  }

  // A weight that no file holds.
  void add_floats(const std::string& name, std::vector<float> floats) {
    const auto values = std::make_shared<const std::vector<float>>(std::move(floats));
    bp_weight_part part{};
    part.dtype = BP_DTYPE_F32;
    part.n_dims = 1;
    part.file = BP_NONE;
    part.dims[0] = values->size();
    part.n_bytes = part.row_stride_bytes = values->size() * sizeof(float);
    part.data = values->data();
    bindings_.weights[name] = parts_.add_weight({name, {part}});
    parts_.owned.push_back(values);
  }

  Status add_prologue() {
    const uint32_t ids = parts_.add_value({BP_ROWS_TOKENS, 0, BP_DTYPE_I32, 0, 1});
    parts_.inputs.push_back(ids);
    bindings_.values[architecture_.ids] = ids;
    return add_ops(architecture_.prologue, "");
  }

  Status add_ops(const std::vector<OpEntry>& entries, const std::string& prefix) {
    for (const OpEntry& entry : entries) {
      BP_ASSIGN(const uint32_t output, row_output(entry));
      BP_TRY(run_entry(entry, scope_, prefix + entry.name, output, bindings_, parts_));
    }
    return {};
  }

  Result<uint32_t> row_output(const OpEntry& entry) const {
    const auto& outputs = architecture_.outputs;
    if (entry.row_output.empty()) return 0u;
    const auto it = std::find(outputs.begin(), outputs.end(), entry.row_output);
    if (it != outputs.end()) return static_cast<uint32_t>(it - outputs.begin());
    return entry.place.error(fmt::format("'{}' is no output of the program{}", entry.row_output,
                                         base::nearest_hint(entry.row_output, outputs)));
  }

  // A layer sees what it is handed, the model's weights and its own; the rest ends with it.
  Status add_layer(int64_t i) {
    const LayerSpec& layer = architecture_.layer;
    const auto model_weights = bindings_.weights;
    std::map<std::string, uint32_t> carried;
    for (const std::string& name : layer.carries) {
      const auto it = bindings_.values.find(name);
      carried[name] = it == bindings_.values.end() ? BP_NONE : it->second;
    }
    bindings_.values = carried;
    scope_.values["i"] = i;
    BP_TRY(run_checks(layer.checks, file_, scope_));
    BP_TRY(binder_.bind(i, bindings_.weights));
    for (const KvSlotSpec& slot : layer.kv_slots) BP_TRY(add_kv_slot(slot));
    for (const StateSlotSpec& slot : layer.state_slots) BP_TRY(add_state_slot(slot));
    BP_TRY(add_ops(layer.ops, fmt::format("layers.{}.", i)));
    for (auto& [name, value] : carried) value = bindings_.values.at(name);
    bindings_ = {carried, model_weights};
    for (const KvSlotSpec& slot : layer.kv_slots) scope_.values.erase(slot.name);
    for (const StateSlotSpec& slot : layer.state_slots) scope_.values.erase(slot.name);
    scope_.values.erase("i");
    return {};
  }

  static Result<uint32_t> small(const PlacedExpression& expression, const Scope& scope,
                                int64_t min) {
    BP_ASSIGN(const int64_t value, expression.integer(scope));
    if (value >= min && value <= UINT32_MAX) return static_cast<uint32_t>(value);
    return expression.place.error(fmt::format("{} is out of range", value));
  }

  Result<bool> is_wanted(const std::optional<PlacedExpression>& when) const {
    return when ? when->condition(scope_) : Result<bool>(true);
  }

  Status add_kv_slot(const KvSlotSpec& spec) {
    BP_ASSIGN(const bool wanted, is_wanted(spec.when));
    if (!wanted) return {};
    bp_kv_slot slot{};
    BP_ASSIGN(slot.n_kv_heads, small(spec.n_kv_heads, scope_, 1));
    BP_ASSIGN(slot.k_head_dim, small(spec.k_head_dim, scope_, 1));
    BP_ASSIGN(slot.v_head_dim, small(spec.v_head_dim, scope_, 1));
    uint32_t window = 0;
    if (spec.window) {
      BP_ASSIGN(window, small(*spec.window, scope_, 0));
    }
    slot.group = group_of(window);
    scope_.values[spec.name] = static_cast<int64_t>(parts_.kv_slots.size());
    parts_.kv_slots.push_back(slot);
    return {};
  }

  Status add_state_slot(const StateSlotSpec& spec) {
    BP_ASSIGN(const bool wanted, is_wanted(spec.when));
    if (!wanted) return {};
    BP_ASSIGN(const uint32_t n_floats, small(spec.n_floats, scope_, 1));
    scope_.values[spec.name] = static_cast<int64_t>(parts_.state_slots.size());
    parts_.state_slots.push_back({n_floats});
    return {};
  }

  // Slots that keep the same tokens share block tables.
  uint32_t group_of(uint32_t window) {
    auto& groups = parts_.kv_groups;
    const auto same = [&](const bp_kv_group& group) { return group.window == window; };
    const auto it = std::find_if(groups.begin(), groups.end(), same);
    if (it != groups.end()) return static_cast<uint32_t>(it - groups.begin());
    groups.push_back({window, 0});
    return static_cast<uint32_t>(groups.size() - 1);
  }

  Status add_outputs() {
    for (const std::string& name : architecture_.outputs) {
      const auto it = bindings_.values.find(name);
      if (it == bindings_.values.end() || it->second == BP_NONE) {
        return invalid_argument(
            fmt::format("{}: no op writes the output '{}'", architecture_.path, name));
      }
      const bp_value& value = parts_.values[it->second];
      if (value.rows != BP_ROWS_OUTPUT || value.output != parts_.outputs.size()) {
        return invalid_argument(
            fmt::format("{}: the rows of output '{}' must come from a select_rows with output: {}",
                        architecture_.path, name, name));
      }
      parts_.outputs.push_back(it->second);
    }
    return {};
  }

  Status check_all_read() const {
    std::vector<bool> read(parts_.values.size());
    for (const uint32_t value : parts_.outputs) read[value] = true;
    for (const Op& op : parts_.ops) {
      for (const uint32_t value : op.inputs) {
        if (value != BP_NONE) read[value] = true;
      }
    }
    for (const Op& op : parts_.ops) {
      for (size_t k = 0; k < op.outputs.size(); ++k) {
        if (op.outputs[k] == BP_NONE || read[op.outputs[k]]) continue;
        return invalid_argument(fmt::format("{}: output {} of op {} ({}) is never read",
                                            architecture_.path, op.schema->outputs[k].name, op.name,
                                            op.schema->kind));
      }
    }
    return {};
  }

  void drop_unused_weights() {
    std::vector<uint32_t> kept(parts_.weights.size(), BP_NONE);
    std::vector<Weight> weights;
    for (Op& op : parts_.ops) {
      for (uint32_t& weight : op.weights) {
        if (weight == BP_NONE) continue;
        if (kept[weight] == BP_NONE) {
          kept[weight] = static_cast<uint32_t>(weights.size());
          weights.push_back(parts_.weights[weight]);
        }
        weight = kept[weight];
      }
    }
    parts_.weights = std::move(weights);
  }

  ModelFile& file_;
  const ArchitectureChoice& choice_;
  const Architecture& architecture_;
  ProgramParts parts_;
  ModelScope scope_;
  TensorBinder binder_;
  Bindings bindings_;
  int64_t n_layers_ = 0;
};

}  // namespace

Result<Lowered> lower(ModelFile& file, const ArchitectureChoice& choice, uint32_t context,
                      const QuantizeAtLoad& quantize, const bp_progress* progress) {
  return Lowering(file, choice, context, quantize, progress).run();
}

}  // namespace bp::model
