#include "core/model/inline_body.hpp"

#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace bp::model {

namespace {

constexpr uint32_t kUnmapped = BP_NONE;

// What expressions in the body of one op see: its attributes, the symbols of its shapes, and
// has(slot).
class BodyScope : public Scope {
 public:
  BodyScope(const Op& op, const ShapeSymbols& symbols) : op_(op), symbols_(symbols) {}

  [[nodiscard]] std::optional<Value> find(std::string_view name) const override {
    if (const AttributeSchema* field = find_attribute(*op_.schema, name)) return attribute(*field);
    const auto symbol = symbols_.find(name);
    if (!symbol) return std::nullopt;
    return Value(static_cast<int64_t>(*symbol));
  }
  [[nodiscard]] std::optional<Value> query(std::string_view function,
                                           std::string_view name) const override {
    if (function != "has") return std::nullopt;
    return Value(symbols_.has(name));
  }

 private:
  [[nodiscard]] Value attribute(const AttributeSchema& field) const {
    const double value = get_attribute(field, op_.attributes.data());
    if (field.type == AttributeType::kF32) return Value(value);
    const auto whole = static_cast<int64_t>(value);
    if (field.type != AttributeType::kEnum) return Value(whole);
    return Value(std::string(field.enum_names[static_cast<size_t>(whole)]));
  }

  const Op& op_;
  const ShapeSymbols& symbols_;
};

// Rebuilds a program op by op; values get new indices on the way.
class Inliner {
 public:
  Inliner(const Program& program, const OpBodies& bodies)
      : old_(program.parts()), bodies_(bodies), mapped_(old_.values.size(), kUnmapped) {
    new_.weights = old_.weights;
    new_.kv_slots = old_.kv_slots;
    new_.kv_groups = old_.kv_groups;
    new_.state_slots = old_.state_slots;
    new_.owned = old_.owned;
  }

  Result<Program> run(const std::vector<bool>& inlined) {
    for (const uint32_t input : old_.inputs) {
      mapped_[input] = new_.add_value(old_.values[input]);
      new_.inputs.push_back(mapped_[input]);
    }
    for (size_t i = 0; i < old_.ops.size(); ++i) {
      if (inlined[i]) {
        BP_TRY(expand(old_.ops[i]));
      } else {
        copy(old_.ops[i]);
      }
    }
    for (const uint32_t output : old_.outputs) new_.outputs.push_back(mapped_[output]);
    return Program::create(std::move(new_));
  }

 private:
  [[nodiscard]] uint32_t map(uint32_t value) const {
    return value == BP_NONE ? BP_NONE : mapped_[value];
  }

  void copy(Op op) {
    for (uint32_t& input : op.inputs) input = map(input);
    for (uint32_t& output : op.outputs) {
      if (output == BP_NONE) continue;
      mapped_[output] = new_.add_value(old_.values[output]);
      output = mapped_[output];
    }
    new_.ops.push_back(std::move(op));
  }

  Status expand(const Op& op) {
    const std::vector<OpEntry>* body = bodies_.find(op.schema->kind);
    if (body == nullptr) return internal_error(fmt::format("{} has no body", op.schema->kind));
    const OpShapes shapes = shapes_of(old_, op);
    const auto symbols = ShapeSymbols::bind(*op.schema, op.attributes.data(), shapes);
    const BodyScope scope(op, symbols);
    Bindings bindings;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      bindings.values[std::string(op.schema->inputs[i].name)] = map(op.inputs[i]);
    }
    for (size_t i = 0; i < op.weights.size(); ++i) {
      bindings.weights[std::string(op.schema->weights[i].name)] = op.weights[i];
    }
    size_t step = 0;
    for (const OpEntry& entry : *body) {
      const std::string name = fmt::format("{}.{}", op.name, step++);
      BP_TRY(run_entry(entry, scope, name, 0, bindings, new_).with_context("op " + op.name));
    }
    return bind_outputs(op, bindings);
  }

  Status bind_outputs(const Op& op, const Bindings& bindings) {
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      if (op.outputs[i] == BP_NONE) continue;
      const auto it = bindings.values.find(std::string(op.schema->outputs[i].name));
      if (it == bindings.values.end() || it->second == BP_NONE) {
        return internal_error(fmt::format("op {}: the body of {} does not write {}", op.name,
                                          op.schema->kind, op.schema->outputs[i].name));
      }
      mapped_[op.outputs[i]] = it->second;
    }
    return {};
  }

  const ProgramParts& old_;
  const OpBodies& bodies_;
  ProgramParts new_;
  std::vector<uint32_t> mapped_;  // old value to new
};

// The sentences of obstacles that no body removes, each with its op; cut after a few.
Status rejection(const Program& program, const std::vector<const plugin::Obstacle*>& obstacles) {
  constexpr size_t kShown = 4;
  std::vector<std::string> sentences;
  for (const plugin::Obstacle* obstacle : obstacles) {
    if (sentences.size() == kShown) {
      sentences.push_back(fmt::format("and {} more", obstacles.size() - kShown));
      break;
    }
    const auto& ops = program.parts().ops;
    const std::string op =
        obstacle->op < ops.size()
            ? fmt::format("op {} ({}): ", ops[obstacle->op].name, ops[obstacle->op].schema->kind)
            : std::string();
    sentences.push_back(op + obstacle->sentence);
  }
  return unsupported(
      fmt::format("the backend cannot run this model: {}", fmt::join(sentences, "; ")));
}

}  // namespace

Result<OpBodies> OpBodies::load(const std::string& folder) {
  OpBodies out;
  for (const OpSchema& schema : all_op_schemas()) {
    if (!schema.composite) continue;
    const std::string kind(schema.kind);
    const auto path = std::filesystem::path(folder) / (kind + ".yaml");
    BP_ASSIGN(const base::Yaml spec, base::Yaml::load_file(path.string()));
    const auto body = spec.find("body");
    if (!body) return spec.error("needs the key body");
    BP_ASSIGN(out.bodies_[kind], parse_op_entries(*body));
  }
  return out;
}

const std::vector<OpEntry>* OpBodies::find(std::string_view kind) const {
  const auto it = bodies_.find(kind);
  return it == bodies_.end() ? nullptr : &it->second;
}

Result<Program> inline_ops(const Program& program, const OpBodies& bodies,
                           const std::vector<bool>& inlined) {
  return Inliner(program, bodies).run(inlined);
}

// Ends: each round replaces composites by primitives, of which bodies consist.
Result<Program> fit_to_backend(Program program, const OpBodies& bodies,
                               const CheckFunction& check) {
  while (true) {
    BP_ASSIGN(const auto obstacles, check(program.c()));
    if (obstacles.empty()) return program;
    const auto& ops = program.parts().ops;
    std::vector<bool> inlined(ops.size());
    std::vector<const plugin::Obstacle*> fatal;
    for (const plugin::Obstacle& obstacle : obstacles) {
      if (obstacle.op < ops.size() && bodies.find(ops[obstacle.op].schema->kind) != nullptr) {
        inlined[obstacle.op] = true;
      } else {
        fatal.push_back(&obstacle);
      }
    }
    if (!fatal.empty()) return rejection(program, fatal);
    BP_ASSIGN(program, inline_ops(program, bodies, inlined));
  }
}

}  // namespace bp::model
