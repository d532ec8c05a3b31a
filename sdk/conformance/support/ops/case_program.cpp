#include "sdk/conformance/support/ops/case_program.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "backplane/dtype.hpp"
#include "sdk/conformance/support/ops/op_lookup.hpp"
#include "sdk/conformance/support/ops/op_writer.hpp"
#include "sdk/conformance/support/ops/random_blocks.hpp"
#include "sdk/conformance/support/random_values.hpp"

namespace bp::conformance {

namespace {

std::vector<uint32_t> in_order(std::span<const SlotSchema> schema,
                               const std::map<std::string, uint32_t>& filled) {
  std::vector<uint32_t> slots;
  for (const SlotSchema& slot : schema) {
    const auto it = filled.find(std::string(slot.name));
    slots.push_back(it == filled.end() ? BP_NONE : it->second);
  }
  return slots;
}

}  // namespace

CaseProgram::CaseProgram(const OpSpec& spec, const OpCase& c, const CaseRun& run)
    : spec_(spec), case_(c), run_(run), schema_(schema_of(spec.name)) {
  for (const CaseSequence& sequence : c.sequences) n_rows_ += sequence.n_cached + sequence.n_new;
  set_attributes();
  fill_inputs();
  fill_weights();
  add_kv();
  add_state();
  add_outputs();
  add_op();
  select_outputs();
}

int32_t CaseProgram::token_id(uint32_t row) const {
  if (schema_.inputs[0].dtype != BP_DTYPE_I32) return static_cast<int32_t>(row);
  return static_cast<int32_t>((row * 7 + 3) % static_cast<uint32_t>(*symbol("n_vocab")));
}

bool CaseProgram::is_filled(const SlotSchema& slot) const {
  return !slot.optional ||
         std::find(case_.with.begin(), case_.with.end(), slot.name) != case_.with.end();
}

bool CaseProgram::has(std::string_view name) const {
  for (const auto slots : {schema_.inputs, schema_.outputs, schema_.weights}) {
    const uint32_t i = find_slot(slots, name);
    if (i != BP_NONE && is_filled(slots[i])) return true;
  }
  return false;
}

std::optional<double> CaseProgram::symbol(std::string_view name) const {
  const auto size = case_.sizes.find(std::string(name));
  if (size != case_.sizes.end()) return static_cast<double>(size->second);
  const AttributeSchema* field = find_attribute(schema_, name);
  if (field == nullptr) return std::nullopt;
  return get_attribute(*field, attributes_.data());
}

ExpressionScope CaseProgram::scope() const {
  return {[this](std::string_view name) -> std::optional<ExpressionValue> {
            if (const auto value = symbol(name)) return *value;
            return std::nullopt;
          },
          [this](std::string_view slot) { return has(slot); }};
}

// The last alternative that is not an attribute turned off.
uint64_t CaseProgram::dimension(std::string_view text) const {
  if (text.starts_with("divisor(")) {
    return dimension(text.substr(8, text.size() - 9)) / case_.repeat;
  }
  uint64_t value = 0;
  for (const std::string& alternative : ShapeSymbols::split(text, '|')) {
    const double found = value_of(Expression::number(alternative, scope()));
    if (found > 0) value = static_cast<uint64_t>(found);
  }
  return value;
}

uint64_t CaseProgram::width(const SlotSchema& slot) const {
  return dimension(ShapeSymbols::split(slot.shape).back());
}

std::string CaseProgram::seed(std::string_view slot) const {
  return std::to_string(run_.seed) + "/" + spec_.name + "/" + case_.name + "/" + std::string(slot);
}

void CaseProgram::set_attributes() {
  attributes_ = default_attributes(schema_);
  for (const auto& [name, text] : case_.attributes) {
    const AttributeSchema* field = find_attribute(schema_, name);
    if (field == nullptr) throw std::runtime_error("unknown attribute " + name);
    const Status status = field->type == AttributeType::kEnum
                              ? set_attribute(*field, attributes_.data(), text)
                              : set_attribute(*field, attributes_.data(), std::stod(text));
    if (!status.ok()) throw std::runtime_error(status.message());
  }
}

uint32_t CaseProgram::random_rows(std::string_view name, uint64_t width) {
  const uint32_t table = builder_.add_weight(std::string(name), BP_DTYPE_F32, {n_rows_, width},
                                             normal_values(seed(name), n_rows_ * width));
  const uint32_t value = builder_.add_value(width);
  builder_.add_op(run_.lookup, {ids_}, {value}, {table},
                  default_attributes(schema_of(run_.lookup)));
  return value;
}

void CaseProgram::fill_inputs() {
  ids_ = builder_.add_ids();
  for (const SlotSchema& slot : schema_.inputs) {
    if (!is_filled(slot)) continue;
    const bool ids = slot.dtype == BP_DTYPE_I32;
    inputs_[std::string(slot.name)] = ids ? ids_ : random_rows(slot.name, width(slot));
  }
}

std::vector<float> CaseProgram::weight_values(const SlotSchema& slot,
                                              const std::vector<uint64_t>& dims) const {
  uint64_t n = 1;
  for (const uint64_t d : dims) n *= d;
  const float deviation = dims.size() > 1 ? 1 / std::sqrt(static_cast<float>(dims.back())) : 1.0f;
  std::vector<float> values = normal_values(seed(slot.name), n, deviation);
  if (slot.name == "decay") {
    for (float& value : values) value = -std::fabs(value);
  }
  for (uint64_t i = 0; i < n; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(n);
    if (slot.name == "inv_freq") values[i] = static_cast<float>(std::pow(10000.0, -share));
    if (slot.name == "slopes") values[i] = static_cast<float>(std::exp2(-8 * share));
  }
  return values;
}

const SlotSchema* CaseProgram::last_matrix() const {
  const SlotSchema* last = nullptr;
  for (const SlotSchema& slot : schema_.weights) {
    if (is_filled(slot) && ShapeSymbols::split(slot.shape).size() > 1) last = &slot;
  }
  return last;
}

void CaseProgram::fill_weights() {
  const SlotSchema* const apart = case_.last_weights == BP_DTYPE_NONE ? nullptr : last_matrix();
  for (const SlotSchema& slot : schema_.weights) {
    if (!is_filled(slot)) continue;
    std::vector<uint64_t> dims;
    for (const std::string& text : ShapeSymbols::split(slot.shape)) dims.push_back(dimension(text));
    const bp_dtype of_matrix = &slot == apart ? case_.last_weights : run_.weights;
    const bp_dtype dtype = dims.size() > 1 ? of_matrix : BP_DTYPE_F32;
    const std::string name(slot.name);
    if (has_encoder(dtype)) {
      weights_[name] = builder_.add_weight(name, dtype, dims, weight_values(slot, dims));
    } else {
      std::mt19937 engine(seed_of(seed(slot.name)));
      uint64_t n_elements = 1;
      for (const uint64_t dim : dims) n_elements *= dim;
      weights_[name] =
          builder_.add_encoded_weight(name, dtype, dims, random_blocks(dtype, n_elements, engine));
    }
    if (dims.size() > 1 && case_.row_gap_bytes > 0) {
      builder_.spread_rows(weights_[name], case_.row_gap_bytes);
    }
  }
}

// The KV slot; where the op itself writes nothing into it, kv_write does before.
void CaseProgram::add_kv() {
  if (find_attribute(schema_, "kv_slot") == nullptr) return;
  has_kv_ = true;
  const auto n_kv_heads = static_cast<uint32_t>(*symbol("n_kv_heads"));
  const auto k_dim = static_cast<uint32_t>(*symbol("head_dim"));
  const auto v_dim = static_cast<uint32_t>(*symbol("v_head_dim"));
  builder_.add_kv_slot({builder_.add_kv_group(), n_kv_heads, k_dim, v_dim});
  if (has("k")) return;
  const uint32_t k = random_rows("k", uint64_t{n_kv_heads} * k_dim);
  const uint32_t v = random_rows("v", uint64_t{n_kv_heads} * v_dim);
  builder_.add_op(BP_OP_KV_WRITE, {k, v}, {}, {}, ProgramBuilder::attributes(bp_attr_kv_write{}));
}

void CaseProgram::add_state() {
  if (find_attribute(schema_, "state_slot") == nullptr) return;
  has_state_ = true;
  if (spec_.name == BP_OP_SHORT_CONV) {
    builder_.add_state_slot(dimension("width*(kernel - 1)"));
  } else {
    builder_.add_state_slot(dimension("n_heads*key_dim*value_dim"));
  }
}

void CaseProgram::add_outputs() {
  for (const SlotSchema& slot : schema_.outputs) {
    if (!is_filled(slot)) continue;
    const bool selected = slot.shape.front() == 'R';
    const uint32_t value = selected ? builder_.add_value(width(slot), BP_ROWS_OUTPUT, 0)
                                    : builder_.add_value(width(slot));
    if (selected) builder_.add_output(value);
    outputs_[std::string(slot.name)] = value;
  }
}

void CaseProgram::add_op() {
  const OpSlots slots{in_order(schema_.inputs, inputs_), in_order(schema_.outputs, outputs_),
                      in_order(schema_.weights, weights_)};
  if (run_.form == CaseForm::kBody) {
    add_body(builder_, spec_.name, spec_, slots, attributes_);
  } else {
    const uint32_t op =
        builder_.add_op(spec_.name, slots.inputs, slots.outputs, slots.weights, attributes_);
    builder_.name_op(op, spec_.name);
  }
}

void CaseProgram::select_outputs() {
  for (const SlotSchema& slot : schema_.outputs) {
    const auto it = outputs_.find(std::string(slot.name));
    if (it == outputs_.end()) continue;
    if (slot.shape.front() != 'R') builder_.add_selected_output(it->second);
    program_outputs_.push_back({it->first, builder_.value(it->second).width});
  }
}

}  // namespace bp::conformance
