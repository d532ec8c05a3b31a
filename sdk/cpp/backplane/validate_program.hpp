#pragma once
// What every backend checks of a program before its own limits: known ops and bits, indices, slots,
// attributes, shapes, the order of writes, and weight parts that lie within their bytes. Each
// obstacle names its op, and the weight or slot with expected and found shape.

#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "backplane/backend.hpp"
#include "backplane/dtype.hpp"
#include "backplane/ext/kv_transfer.h"
#include "backplane/program_view.hpp"

namespace bp {

class ProgramValidator {
 public:
  ProgramValidator(const ProgramView& program, CheckReport& report)
      : program_(program), report_(report) {}

  void run() {
    check_program();
    weight_ok_.resize(program_.weights().size());
    for (uint32_t w = 0; w < weight_ok_.size(); ++w) weight_ok_[w] = check_weight(w);
    for (op_index_ = 0; op_index_ < program_.ops().size(); ++op_index_) {
      check_op(program_.ops()[op_index_]);
    }
    op_index_ = BP_NONE;
    for (size_t s = 0; s < state_op_.size(); ++s) {
      if (state_op_[s] == BP_NONE) complain("no op names state slot " + std::to_string(s));
    }
    for (const uint32_t value : program_.outputs()) {
      if (value < written_.size() && !written_[value]) {
        complain("program output value " + std::to_string(value) + " is written by no op");
      }
    }
  }

 private:
  void complain(const std::string& sentence) { report_.obstacle(op_index_, sentence); }
  void complain(const bp_op& op, const std::string& what) { complain(describe(op) + ": " + what); }

  void check_program() {
    const bp_program& p = program_.header();
    if (p.required != 0) complain("the program requires a feature unknown to this version");
    written_.resize(p.n_values);
    for (const uint32_t value : program_.inputs()) {
      if (value >= p.n_values) {
        complain("program input value " + std::to_string(value) + " is out of range");
      } else {
        written_[value] = true;
      }
    }
    for (const uint32_t value : program_.outputs()) {
      if (value >= p.n_values) {
        complain("program output value " + std::to_string(value) + " is out of range");
      }
    }
    for (uint32_t v = 0; v < p.n_values; ++v) check_value(v);
    if (program_.n_groups() > kMostGroups) {
      complain("the program has " + std::to_string(p.n_kv_groups) + " KV groups" +
               (p.n_state_slots > 0 ? " and state slots" : "") + ", which are " +
               std::to_string(program_.n_groups()) + " groups; at most " +
               std::to_string(kMostGroups) + " are possible");
    }
    for (uint32_t s = 0; s < p.n_kv_slots; ++s) {
      if (program_.kv_slots()[s].group < p.n_kv_groups) continue;
      complain("KV slot " + std::to_string(s) + " names a group that does not exist");
    }
    state_op_.assign(p.n_state_slots, BP_NONE);
    for (uint32_t s = 0; s < p.n_state_slots; ++s) {
      if (program_.state_slots()[s].n_floats > 0) continue;
      complain("state slot " + std::to_string(s) + " holds nothing");
    }
  }

  void check_value(uint32_t index) {
    const bp_value& v = program_.values()[index];
    const bool rows = v.rows == BP_ROWS_TOKENS ||
                      (v.rows == BP_ROWS_OUTPUT && v.output < program_.outputs().size());
    const bool type = v.dtype == BP_DTYPE_F32 || (v.dtype == BP_DTYPE_I32 && v.width == 1);
    if (rows && type && v.width > 0) return;
    complain("value " + std::to_string(index) + " has invalid rows, type or width");
  }

  bool check_weight(uint32_t index) {
    const bp_weight& weight = program_.weights()[index];
    const std::string name = "weight " + weight_name(weight);
    const uint32_t before = report_.n_obstacles();
    if (weight.required != 0) complain(name + " requires a feature unknown to this version");
    const bp_weight_part* data = data_part(weight);
    if (data == nullptr) {
      complain(name + " has no data");
      return false;
    }
    for (uint32_t i = 0; i < weight.n_parts; ++i) check_part(name, weight.parts[i]);
    return report_.n_obstacles() == before;
  }

  void check_part(const std::string& name, const bp_weight_part& part) {
    if (!is_known_dtype(part.dtype)) {
      complain(name + " has the unknown element type " + std::to_string(part.dtype));
      return;
    }
    if (part.n_dims < 1 || part.n_dims > 4) {
      complain(name + " has " + std::to_string(part.n_dims) + " dimensions, expected 1 to 4");
      return;
    }
    const uint64_t width = part.dims[part.n_dims - 1];
    if (width == 0 || width % dtype_info(part.dtype).block_elements != 0) {
      complain(name + " has rows of " + std::to_string(width) +
               " elements, which is no multiple of " + std::string(dtype_name(part.dtype)) +
               "'s block of " + std::to_string(dtype_info(part.dtype).block_elements));
      return;
    }
    // In floating point: products of hostile dimensions must not wrap.
    double rows = 1;
    for (uint32_t d = 0; d + 1 < part.n_dims; ++d) rows *= static_cast<double>(part.dims[d]);
    const uint64_t row = row_bytes(part.dtype, width);
    const double needed =
        (rows - 1) * static_cast<double>(part.row_stride_bytes) + static_cast<double>(row);
    const bool strides = part.n_dims == 1 || part.row_stride_bytes >= row;
    if (part.data == nullptr || rows < 1 || !strides ||
        needed > static_cast<double>(part.n_bytes)) {
      complain(name + " of shape " + shape_text(dims_of(part)) + " does not lie within its " +
               std::to_string(part.n_bytes) + " bytes");
    }
  }

  void check_op(const bp_op& op) {
    const OpSchema* schema = find_op_schema(kind_of(op));
    if (schema == nullptr) return complain(op, "unknown kind of op");
    if (op.version > schema->version) {
      return complain(op, "version " + std::to_string(op.version) +
                              " is unknown, the highest known is " +
                              std::to_string(schema->version));
    }
    if (op.required != 0) return complain(op, "requires a feature unknown to this version");
    const uint32_t before = report_.n_obstacles();
    check_slots(op, *schema);
    if (report_.n_obstacles() != before) return;
    check_attributes(op, *schema);
    if (report_.n_obstacles() != before) return;
    check_shapes(op, *schema);
    check_kind(op);
  }

  void check_slots(const bp_op& op, const OpSchema& schema) {
    check_slots(op, "input", schema.inputs, input_slots(op), program_.values().size());
    check_slots(op, "output", schema.outputs, output_slots(op), program_.values().size());
    check_slots(op, "weight", schema.weights, weight_slots(op), program_.weights().size());
    for (const uint32_t w : weight_slots(op)) {
      if (w < weight_ok_.size() && !weight_ok_[w]) {
        complain(op, "weight " + weight_name(program_.weights()[w]) + " is not usable");
      }
    }
    for (const uint32_t v : input_slots(op)) {
      if (v < written_.size() && !written_[v]) {
        complain(op, "reads value " + std::to_string(v) + " before it is written");
      }
    }
    for (const uint32_t v : output_slots(op)) {
      if (v >= written_.size()) continue;
      if (written_[v])
        complain(op, "writes value " + std::to_string(v) + ", which is written already");
      written_[v] = true;
    }
  }

  void check_slots(const bp_op& op, const std::string& what, std::span<const SlotSchema> schema,
                   std::span<const uint32_t> found, size_t n_indices) {
    if (found.size() > schema.size()) {
      complain(op, "has " + std::to_string(found.size()) + " " + what + "s, expected at most " +
                       std::to_string(schema.size()));
    }
    for (size_t i = 0; i < schema.size(); ++i) {
      const uint32_t index = slot_at(found, i);
      const std::string name = what + " " + std::string(schema[i].name);
      if (index == BP_NONE) {
        if (!schema[i].optional) complain(op, name + " is missing");
      } else if (index >= n_indices) {
        complain(op, name + " is out of range");
      }
    }
  }

  void check_attributes(const bp_op& op, const OpSchema& schema) {
    if (schema.attributes_bytes == 0) return;
    if (op.attributes == nullptr) {
      for (const AttributeSchema& field : schema.attributes) {
        if (field.required)
          return complain(op, "attribute " + std::string(field.name) + " is missing");
      }
      return;
    }
    const AttributeBuffer attributes = read_attributes(schema, op.attributes);
    if (detail::load<uint64_t>(attributes.data(), kRequiredOffset) != 0) {
      complain(op, "its attributes require a feature unknown to this version");
    }
    for (const AttributeSchema& field : schema.attributes) {
      const double value = get_attribute(field, attributes.data());
      if (field.type == AttributeType::kEnum &&
          value >= static_cast<double>(field.enum_names.size())) {
        complain(op, "attribute " + std::string(field.name) + " has the unknown value " +
                         std::to_string(static_cast<uint32_t>(value)));
      }
      if (!std::isfinite(value))
        complain(op, "attribute " + std::string(field.name) + " is not finite");
    }
  }

  void check_shapes(const bp_op& op, const OpSchema& schema) {
    const OpShapes shapes = shapes_of(program_, op);
    const AttributeBuffer attributes = read_attributes(schema, op.attributes);
    const auto symbols = ShapeSymbols::bind(schema, attributes.data(), shapes);
    for (uint32_t i = 0; i < op.n_weights; ++i) {
      if (!shapes.weights[i]) continue;
      const std::string mismatch = symbols.mismatch_of_weight(i);
      const bp_weight& weight = program_.weights()[op.weights[i]];
      const std::string name =
          "weight " + std::string(schema.weights[i].name) + " " + weight_name(weight);
      if (!mismatch.empty()) complain(op, name + " " + mismatch);
      const bp_dtype dtype = schema.weights[i].dtype;
      if (dtype != BP_DTYPE_NONE && data_part(weight)->dtype != dtype) {
        complain(op, name + " has type " + std::string(dtype_name(data_part(weight)->dtype)) +
                         ", expected " + std::string(dtype_name(dtype)));
      }
    }
    check_values(op, schema.inputs, input_slots(op), symbols);
    check_values(op, schema.outputs, output_slots(op), symbols);
  }

  void check_values(const bp_op& op, std::span<const SlotSchema> schema,
                    std::span<const uint32_t> slots, const ShapeSymbols& symbols) {
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i] == BP_NONE) continue;
      const bp_value& value = program_.values()[slots[i]];
      const std::string name = "value " + std::string(schema[i].name);
      const std::string mismatch = symbols.mismatch_of_value(schema[i], value.width);
      if (!mismatch.empty()) complain(op, name + " " + mismatch);
      if (value.dtype != schema[i].dtype) {
        complain(op, name + " has type " + std::string(dtype_name(value.dtype)) + ", expected " +
                         std::string(dtype_name(schema[i].dtype)));
      }
      check_rows(op, name, schema[i].shape.front(), value);
    }
  }

  void check_rows(const bp_op& op, const std::string& name, char symbol, const bp_value& value) {
    if (symbol == 'T' && value.rows != BP_ROWS_TOKENS) {
      complain(op, name + " must have a row for each token");
    }
    if (symbol == 'R' && value.rows != BP_ROWS_OUTPUT) {
      complain(op, name + " must have the rows of a program output");
    }
    if (symbol != 'N') return;
    const bp_value& first = program_.values()[op.inputs[0]];
    if (value.rows != first.rows || value.output != first.output) {
      complain(op, name + " has other rows than the op's first input");
    }
  }

  // What symbols cannot say.
  void check_kind(const bp_op& op) {
    const std::string_view kind = kind_of(op);
    if (kind == BP_OP_ADD || kind == BP_OP_MULTIPLY) return check_pair(op);
    if (kind == BP_OP_QKV) return check_qkv(op);
    if (kind == BP_OP_ROPE) return check_rope(op, attributes_of<bp_attr_rope>(op));
    if (kind == BP_OP_ROTATE) return check_rope(op, attributes_of<bp_attr_rotate>(op));
    if (kind == BP_OP_NORM) return check_group(op, attributes_of<bp_attr_norm>(op).group);
    if (kind == BP_OP_NORMALIZE) return check_group(op, attributes_of<bp_attr_normalize>(op).group);
    if (kind == BP_OP_SOFTCAP && attributes_of<bp_attr_softcap>(op).cap <= 0) {
      return complain(op, "cap must be positive");
    }
    if (kind == BP_OP_SLICE) return check_slice(op);
    if (kind == BP_OP_SLICE_GROUPS) return check_slice_groups(op);
    if (kind == BP_OP_CONCAT_GROUPS) return check_concat_groups(op);
    if (kind == BP_OP_MOE) return check_route(op, attributes_of<bp_attr_moe>(op), moe_experts(op));
    if (kind == BP_OP_ROUTE) {
      const uint64_t n_experts = program_.values()[op.inputs[0]].width;
      return check_route(op, attributes_of<bp_attr_route>(op), n_experts);
    }
    if (kind == BP_OP_GROUP_MATMUL) return check_group_matmul(op);
    if (kind == BP_OP_GROUP_SUM) {
      check_groups(op, attributes_of<bp_attr_group_sum>(op).n_groups,
                   program_.values()[op.inputs[0]].width);
    }
    if (kind == BP_OP_KV_WRITE) return check_kv_write(op);
    if (kind == BP_OP_SHORT_CONV) return check_short_conv(op);
    if (kind == BP_OP_GATED_DELTA) return check_gated_delta(op);
    if (kind == BP_OP_ATTENTION || kind == BP_OP_ATTEND) {
      check_attention(op, attributes_of<bp_attr_attention>(op), kind == BP_OP_ATTENTION);
    }
  }

  void check_pair(const bp_op& op) {
    const bool b = slot_at(input_slots(op), 1) != BP_NONE;
    const bool w = slot_at(weight_slots(op), 0) != BP_NONE;
    if (b == w) complain(op, "needs either input b or weight w");
  }
  void check_qkv(const bp_op& op) {
    const auto weights = weight_slots(op);
    const bool k = slot_at(weights, 1) != BP_NONE, v = slot_at(weights, 2) != BP_NONE;
    if (k != v) complain(op, "has one of the weights k_weight and v_weight without the other");
    if (!k && (slot_at(weights, 4) != BP_NONE || slot_at(weights, 5) != BP_NONE)) {
      complain(op, "packed rows have a packed bias in q_bias, not k_bias or v_bias");
    }
  }
  template <class A>
  void check_rope(const bp_op& op, const A& a) {
    if (a.n_dims % 2 != 0 || a.n_dims > a.head_dim || a.n_dims == 0) {
      complain(op, "n_dims " + std::to_string(a.n_dims) + " must be even and at most head_dim " +
                       std::to_string(a.head_dim));
    }
    if (slot_at(input_slots(op), 1) != BP_NONE && slot_at(output_slots(op), 1) == BP_NONE) {
      complain(op, "output k is missing");
    }
  }
  void check_group(const bp_op& op, uint32_t group) {
    const uint64_t width = program_.values()[op.inputs[0]].width;
    if (group == 0 || width % group == 0) return;
    complain(op, "group " + std::to_string(group) + " does not divide the width " +
                     std::to_string(width));
  }
  void check_slice(const bp_op& op) {
    const auto a = attributes_of<bp_attr_slice>(op);
    const uint64_t width = program_.values()[op.inputs[0]].width;
    if (a.first > width || a.n > width - a.first) {
      complain(op, "columns " + std::to_string(a.first) + " to " + std::to_string(a.first + a.n) +
                       " of an input of width " + std::to_string(width));
    }
  }
  bool check_groups(const bp_op& op, uint64_t n_groups, uint64_t width) {
    if (n_groups != 0 && width % n_groups == 0) return true;
    complain(op, std::to_string(n_groups) + " groups do not divide " + std::to_string(width));
    return false;
  }
  void check_slice_groups(const bp_op& op) {
    const auto a = attributes_of<bp_attr_slice_groups>(op);
    const uint64_t width = program_.values()[op.inputs[0]].width;
    if (!check_groups(op, a.n_groups, width)) return;
    if (uint64_t{a.first} + a.n <= width / a.n_groups) return;
    complain(op, "columns " + std::to_string(a.first) + " to " +
                     std::to_string(uint64_t{a.first} + a.n) + " of groups of width " +
                     std::to_string(width / a.n_groups));
  }
  void check_concat_groups(const bp_op& op) {
    const auto a = attributes_of<bp_attr_concat_groups>(op);
    if (a.b_groups != a.n_groups && a.b_groups != 1) {
      complain(op, "b_groups must be n_groups or 1");
    }
    if (check_groups(op, a.n_groups, program_.values()[op.inputs[0]].width)) {
      check_groups(op, a.b_groups, program_.values()[op.inputs[1]].width);
    }
  }
  uint64_t moe_experts(const bp_op& op) {
    return dims_of(*data_part(program_.weights()[op.weights[0]])).front();
  }
  template <class A>
  void check_route(const bp_op& op, const A& a, uint64_t n_experts) {
    if (a.n_used == 0 || a.n_used > n_experts) {
      return complain(op, "n_used " + std::to_string(a.n_used) + " of " +
                              std::to_string(n_experts) + " experts");
    }
    if (a.n_groups <= 1) return;
    if (!check_groups(op, a.n_groups, n_experts)) return;
    const uint64_t group = n_experts / a.n_groups;
    if (a.n_groups_used == 0 || a.n_groups_used > a.n_groups || a.group_best == 0 ||
        a.group_best > group || a.n_used > a.n_groups_used * group) {
      complain(op, "its groups hold too few experts");
    }
  }
  void check_group_matmul(const bp_op& op) {
    const uint64_t n_groups = attributes_of<bp_attr_group_matmul>(op).n_groups;
    const uint64_t n_matrices = dims_of(*data_part(program_.weights()[op.weights[0]])).front();
    if (n_groups == 0) complain(op, "n_groups must be positive");
    if (slot_at(input_slots(op), 1) == BP_NONE && n_groups != n_matrices) {
      complain(op, "without ids there must be a matrix for each group");
    }
  }
  void check_kv_write(const bp_op& op) {
    const uint32_t index = attributes_of<bp_attr_kv_write>(op).kv_slot;
    if (index >= program_.kv_slots().size()) return complain(op, "kv_slot is out of range");
    const bp_kv_slot& slot = program_.kv_slots()[index];
    const uint64_t k = program_.values()[op.inputs[0]].width,
                   v = program_.values()[op.inputs[1]].width;
    if (k == uint64_t{slot.n_kv_heads} * slot.k_head_dim &&
        v == uint64_t{slot.n_kv_heads} * slot.v_head_dim) {
      return;
    }
    complain(op, "k and v have widths " + std::to_string(k) + " and " + std::to_string(v) +
                     ", which are not those of KV slot " + std::to_string(index));
  }
  void check_attention(const bp_op& op, const bp_attr_attention& a, bool composite) {
    if (a.kv_slot >= program_.kv_slots().size()) return complain(op, "kv_slot is out of range");
    const bp_kv_slot& slot = program_.kv_slots()[a.kv_slot];
    if (a.n_kv_heads == 0 || a.n_heads % a.n_kv_heads != 0) {
      complain(op, "n_heads must be a multiple of n_kv_heads");
    }
    if (slot.n_kv_heads != a.n_kv_heads || slot.k_head_dim != a.head_dim ||
        slot.v_head_dim != a.v_head_dim) {
      complain(op, "KV slot " + std::to_string(a.kv_slot) +
                       " keeps other heads than the op's attributes say");
    }
    if (a.softcap < 0) complain(op, "softcap must not be negative");
    if (!composite) {
      if (a.writes_kv != 0) complain(op, "writes_kv must be 0");
      return;
    }
    const bool k = slot_at(input_slots(op), 1) != BP_NONE,
               v = slot_at(input_slots(op), 2) != BP_NONE;
    if (k != (a.writes_kv != 0) || v != (a.writes_kv != 0)) {
      complain(op, "k and v must be there exactly when writes_kv is 1");
    }
  }

  void check_state(const bp_op& op, uint32_t index, double n_floats) {
    if (index >= program_.state_slots().size()) return complain(op, "state_slot is out of range");
    const std::string name = "state slot " + std::to_string(index);
    if (state_op_[index] != BP_NONE) {
      complain(op, name + " is that of " + describe(program_.ops()[state_op_[index]]));
    }
    state_op_[index] = op_index_;
    const uint64_t found = program_.state_slots()[index].n_floats;
    if (static_cast<double>(found) == n_floats) return;
    complain(op, name + " holds " + std::to_string(found) + " floats, the op keeps " +
                     std::to_string(static_cast<uint64_t>(n_floats)));
  }
  void check_short_conv(const bp_op& op) {
    const auto a = attributes_of<bp_attr_short_conv>(op);
    if (a.kernel < 2) return complain(op, "kernel must be at least 2");
    const auto width = static_cast<double>(program_.values()[op.inputs[0]].width);
    check_state(op, a.state_slot, width * (a.kernel - 1));
  }
  void check_gated_delta(const bp_op& op) {
    const auto a = attributes_of<bp_attr_gated_delta>(op);
    if (a.n_key_heads == 0 || a.n_heads % a.n_key_heads != 0) {
      return complain(op, "n_heads must be a multiple of n_key_heads");
    }
    check_state(op, a.state_slot, static_cast<double>(a.n_heads) * a.key_dim * a.value_dim);
  }

  static constexpr uint32_t kMostGroups = std::extent_v<decltype(bp_memory_info::block_bytes)>;
  static_assert(kMostGroups == std::extent_v<decltype(bp_kv_image_info::image_bytes)>);
  static constexpr uint32_t kRequiredOffset = 8;  // of `required` in every attribute struct

  const ProgramView& program_;
  CheckReport& report_;
  uint32_t op_index_ = BP_NONE;
  std::vector<bool> written_;
  std::vector<bool> weight_ok_;
  std::vector<uint32_t> state_op_;  // of each state slot the op that names it
};

// Reports every obstacle; true when there is none.
inline bool validate_program(const ProgramView& program, CheckReport& report) {
  const uint32_t before = report.n_obstacles();
  ProgramValidator(program, report).run();
  return report.n_obstacles() == before;
}

}  // namespace bp
