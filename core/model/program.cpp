#include "core/model/program.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backplane/validate_program.hpp"

namespace bp::model {

struct Program::Storage {
  explicit Storage(ProgramParts p);
  Storage(const Storage&) = delete;

  ProgramParts parts;
  std::vector<bp_weight> weights;
  std::vector<const bp_weight*> weight_pointers;
  std::vector<bp_op> ops;
  std::vector<const bp_op*> op_pointers;
  bp_program program;
};

namespace {

bp_weight c_weight(const Weight& weight) {
  auto c = make_growable<bp_weight>();
  c.n_parts = static_cast<uint32_t>(weight.parts.size());
  c.name = weight.name.c_str();
  c.parts = weight.parts.data();
  return c;
}

bp_op c_op(const Op& op) {
  auto c = make_growable<bp_op>();
  c.version = version_needed(*op.schema, op.weights,
                             op.attributes.empty() ? nullptr : op.attributes.data());
  c.kind = op.schema->kind.data();  // from a string literal of ops.h
  c.name = op.name.c_str();
  c.n_inputs = static_cast<uint32_t>(op.inputs.size());
  c.n_outputs = static_cast<uint32_t>(op.outputs.size());
  c.n_weights = weights_known(*op.schema, c.version);
  c.inputs = op.inputs.data();
  c.outputs = op.outputs.data();
  c.weights = op.weights.data();
  c.attributes = op.attributes.empty() ? nullptr : op.attributes.data();
  return c;
}

template <class T>
std::vector<const T*> pointers_to(const std::vector<T>& objects) {
  std::vector<const T*> out;
  for (const T& object : objects) out.push_back(&object);
  return out;
}

Status validate(const bp_program& program) {
  std::vector<std::string> sentences;
  auto c_report = make_growable<bp_check_report>();
  c_report.user = &sentences;
  c_report.obstacle = [](void* user, uint32_t, bp_str sentence) {
    static_cast<std::vector<std::string>*>(user)->emplace_back(view(sentence));
  };
  CheckReport report(&c_report);
  if (validate_program(ProgramView(program), report)) return {};
  return invalid_argument(fmt::format("{}", fmt::join(sentences, "; ")));
}

// `symbol` is the first of a slot's shape: T, R or N.
bp_value output_value(const ProgramParts& parts, const Op& op, char symbol, uint32_t row_output) {
  bp_value value{};
  value.dtype = BP_DTYPE_F32;
  value.rows = symbol == 'R' ? BP_ROWS_OUTPUT : BP_ROWS_TOKENS;
  if (symbol == 'R') value.output = row_output;
  if (symbol == 'N') {
    const bp_value& first = parts.values[op.inputs[0]];
    value.rows = first.rows;
    value.output = first.output;
  }
  return value;
}

Status check_presence(const char* what, std::span<const SlotSchema> slots,
                      const std::vector<uint32_t>& found) {
  for (size_t i = 0; i < slots.size(); ++i) {
    if (found[i] != BP_NONE || slots[i].optional) continue;
    return invalid_argument(fmt::format("{} {} is missing", what, slots[i].name));
  }
  return {};
}

Status check_shapes(const ProgramParts& parts, const Op& op, const OpShapes& shapes,
                    const ShapeSymbols& symbols) {
  for (uint32_t i = 0; i < op.weights.size(); ++i) {
    if (op.weights[i] == BP_NONE) continue;
    const std::string mismatch = symbols.mismatch_of_weight(i);
    if (mismatch.empty()) continue;
    return invalid_argument(fmt::format("weight {} '{}' {}", op.schema->weights[i].name,
                                        parts.weights[op.weights[i]].name, mismatch));
  }
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!shapes.inputs[i]) continue;
    const SlotSchema& slot = op.schema->inputs[i];
    const std::string mismatch = symbols.mismatch_of_value(slot, *shapes.inputs[i]);
    if (!mismatch.empty()) return invalid_argument(fmt::format("input {} {}", slot.name, mismatch));
  }
  return {};
}

}  // namespace

uint32_t ProgramParts::add_value(const bp_value& value) {
  values.push_back(value);
  return static_cast<uint32_t>(values.size() - 1);
}

uint32_t ProgramParts::add_weight(Weight weight) {
  weights.push_back(std::move(weight));
  return static_cast<uint32_t>(weights.size() - 1);
}

OpShapes shapes_of(const ProgramParts& parts, const Op& op) {
  OpShapes shapes;
  const auto width = [&](uint32_t value) {
    return value < parts.values.size() ? std::optional(parts.values[value].width) : std::nullopt;
  };
  for (const uint32_t value : op.inputs) shapes.inputs.push_back(width(value));
  for (const uint32_t value : op.outputs) shapes.outputs.push_back(width(value));
  for (const uint32_t weight : op.weights) {
    shapes.weights.push_back(weight == BP_NONE ? std::nullopt
                                               : std::optional(parts.weights[weight].dims()));
  }
  return shapes;
}

Result<const Op*> append_op(ProgramParts& parts, Op op, uint32_t row_output) {
  op.inputs.resize(op.schema->inputs.size(), BP_NONE);
  op.outputs.resize(op.schema->outputs.size(), BP_NONE);
  op.weights.resize(op.schema->weights.size(), BP_NONE);
  BP_TRY(check_presence("input", op.schema->inputs, op.inputs));
  BP_TRY(check_presence("output", op.schema->outputs, op.outputs));
  BP_TRY(check_presence("weight", op.schema->weights, op.weights));
  std::vector<bool> wanted;
  for (uint32_t& output : op.outputs) {
    wanted.push_back(output != BP_NONE);
    output = BP_NONE;
  }
  const OpShapes shapes = shapes_of(parts, op);
  const auto symbols = ShapeSymbols::bind(*op.schema, op.attributes.data(), shapes);
  BP_TRY(check_shapes(parts, op, shapes, symbols));
  for (uint32_t i = 0; i < op.outputs.size(); ++i) {
    if (!wanted[i]) continue;
    const char rows = op.schema->outputs[i].shape.front();
    bp_value value = output_value(parts, op, rows, row_output);
    BP_ASSIGN(value.width, symbols.output_width(i));
    op.outputs[i] = parts.add_value(value);
  }
  parts.ops.push_back(std::move(op));
  return &parts.ops.back();
}

Program::Storage::Storage(ProgramParts p) : parts(std::move(p)) {
  for (const Weight& weight : parts.weights) weights.push_back(c_weight(weight));
  for (const Op& op : parts.ops) ops.push_back(c_op(op));
  weight_pointers = pointers_to(weights);
  op_pointers = pointers_to(ops);
  program = make_growable<bp_program>();
  program.n_values = static_cast<uint32_t>(parts.values.size());
  program.n_weights = static_cast<uint32_t>(weights.size());
  program.n_ops = static_cast<uint32_t>(ops.size());
  program.n_inputs = static_cast<uint32_t>(parts.inputs.size());
  program.n_outputs = static_cast<uint32_t>(parts.outputs.size());
  program.n_kv_slots = static_cast<uint32_t>(parts.kv_slots.size());
  program.n_kv_groups = static_cast<uint32_t>(parts.kv_groups.size());
  program.n_state_slots = static_cast<uint32_t>(parts.state_slots.size());
  program.values = parts.values.data();
  program.weights = weight_pointers.data();
  program.ops = op_pointers.data();
  program.inputs = parts.inputs.data();
  program.outputs = parts.outputs.data();
  program.kv_slots = parts.kv_slots.data();
  program.kv_groups = parts.kv_groups.data();
  program.state_slots = parts.state_slots.data();
}

Result<Program> Program::create(ProgramParts parts) {
  auto storage = std::make_shared<const Storage>(std::move(parts));
  BP_TRY(validate(storage->program));
  return Program(std::move(storage));
}

const bp_program& Program::c() const {
  return storage_->program;
}

const ProgramParts& Program::parts() const {
  return storage_->parts;
}

}  // namespace bp::model
