#include "sdk/conformance/support/ops/op_case.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include "backplane/dtype.hpp"
#include "backplane/op_shapes.hpp"
#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"
#include "sdk/conformance/support/program_builder.hpp"
#include "sdk/conformance/support/random_values.hpp"

namespace bp::conformance {

namespace {

constexpr uint32_t kBlockSize = 16;

template <class T>
T expect(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().message());
  return std::move(result).value();
}
void expect(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

const OpSchema& schema_of(const std::string& kind) {
  const OpSchema* schema = find_op_schema(kind);
  if (schema == nullptr) throw std::runtime_error("unknown op " + kind);
  return *schema;
}

void set_from_text(const OpSchema& schema, const std::string& name, const ExpressionValue& value,
                   AttributeBuffer& attributes) {
  const AttributeSchema* field = find_attribute(schema, name);
  if (field == nullptr) throw std::runtime_error("unknown attribute " + name);
  if (const auto* text = std::get_if<std::string>(&value)) {
    return expect(set_attribute(*field, attributes.data(), *text));
  }
  expect(set_attribute(*field, attributes.data(), std::get<double>(value)));
}

// Builds the program of one case.
class CaseProgram {
 public:
  CaseProgram(const OpSpec& spec, const OpCase& c, const CaseRun& run)
      : spec_(spec), case_(c), run_(run), schema_(schema_of(spec.name)) {
    for (const CaseSequence& sequence : c.sequences) {
      n_rows_ += sequence.n_cached + sequence.n_new;
    }
    set_attributes();
    fill_inputs();
    fill_weights();
    add_kv();
    for (const SlotSchema& slot : schema_.outputs) {
      if (!is_filled(slot)) continue;
      const uint64_t w = width(slot);
      outputs_[std::string(slot.name)] =
          slot.shape.front() == 'R' ? add_selected_slot(w) : builder_.add_value(w);
    }
    if (run.form == CaseForm::kBody) {
      add_body();
    } else {
      add_op();
    }
    select_outputs();
  }

  [[nodiscard]] ProgramBuilder& builder() { return builder_; }
  [[nodiscard]] bool has_kv() const { return has_kv_; }
  // Of the program outputs.
  [[nodiscard]] const std::vector<uint64_t>& output_widths() const { return output_widths_; }
  // Ids are rows of the input tables, or random for an op that reads ids itself.
  [[nodiscard]] int32_t token_id(uint32_t row) const {
    if (schema_.inputs[0].dtype != BP_DTYPE_I32) return static_cast<int32_t>(row);
    return static_cast<int32_t>((row * 7 + 3) % static_cast<uint32_t>(*symbol("n_vocab")));
  }

 private:
  [[nodiscard]] bool is_filled(const SlotSchema& slot) const {
    return !slot.optional ||
           std::find(case_.with.begin(), case_.with.end(), slot.name) != case_.with.end();
  }
  [[nodiscard]] bool has(std::string_view name) const {
    for (const auto slots : {schema_.inputs, schema_.outputs, schema_.weights}) {
      const uint32_t i = find_slot(slots, name);
      if (i != BP_NONE && is_filled(slots[i])) return true;
    }
    return false;
  }
  [[nodiscard]] std::optional<double> symbol(std::string_view name) const {
    const auto size = case_.sizes.find(std::string(name));
    if (size != case_.sizes.end()) return static_cast<double>(size->second);
    const AttributeSchema* field = find_attribute(schema_, name);
    if (field == nullptr) return std::nullopt;
    return get_attribute(*field, attributes_.data());
  }
  [[nodiscard]] ExpressionScope scope() const {
    return {[this](std::string_view name) -> std::optional<ExpressionValue> {
              const AttributeSchema* field = find_attribute(schema_, name);
              if (field != nullptr && field->type == AttributeType::kEnum) {
                return std::string(field->enum_names[static_cast<size_t>(*symbol(name))]);
              }
              if (const auto value = symbol(name)) return *value;
              return std::nullopt;
            },
            [this](std::string_view slot) { return has(slot); }};
  }
  // The last alternative that is not an attribute turned off.
  [[nodiscard]] uint64_t dimension(std::string_view text) const {
    if (text.starts_with("divisor(")) {
      return dimension(text.substr(8, text.size() - 9)) / case_.repeat;
    }
    uint64_t value = 0;
    for (const std::string& alternative : ShapeSymbols::split(text, '|')) {
      const double found = expect(Expression::number(alternative, scope()));
      if (found > 0) value = static_cast<uint64_t>(found);
    }
    return value;
  }
  [[nodiscard]] uint64_t width(const SlotSchema& slot) const {
    return dimension(ShapeSymbols::split(slot.shape).back());
  }
  [[nodiscard]] std::string seed(std::string_view slot) const {
    return spec_.name + "/" + case_.name + "/" + std::string(slot);
  }

  void set_attributes() {
    attributes_ = default_attributes(schema_);
    for (const auto& [name, text] : case_.attributes) {
      const AttributeSchema* field = find_attribute(schema_, name);
      if (field == nullptr) throw std::runtime_error("unknown attribute " + name);
      const bool is_enum = field->type == AttributeType::kEnum;
      set_from_text(schema_, name,
                    is_enum ? ExpressionValue(text) : ExpressionValue(std::stod(text)),
                    attributes_);
    }
  }

  uint32_t random_rows(std::string_view name, uint64_t n) {
    const uint32_t table = builder_.add_weight(std::string(name), BP_DTYPE_F32, {n_rows_, n},
                                               normal_values(seed(name), n_rows_ * n));
    const uint32_t value = builder_.add_value(n);
    builder_.add_op(BP_OP_GATHER, {ids_}, {value}, {table});
    return value;
  }
  void fill_inputs() {
    ids_ = builder_.add_ids();
    for (const SlotSchema& slot : schema_.inputs) {
      if (!is_filled(slot)) continue;
      const bool ids = slot.dtype == BP_DTYPE_I32;
      inputs_[std::string(slot.name)] = ids ? ids_ : random_rows(slot.name, width(slot));
    }
  }
  void fill_weights() {
    for (const SlotSchema& slot : schema_.weights) {
      if (!is_filled(slot)) continue;
      std::vector<uint64_t> dims;
      uint64_t n = 1;
      for (const std::string& text : ShapeSymbols::split(slot.shape)) {
        dims.push_back(dimension(text));
        n *= dims.back();
      }
      const bool matrix = dims.size() > 1;
      const float deviation = matrix ? 1 / std::sqrt(static_cast<float>(dims.back())) : 1.0f;
      std::vector<float> values = normal_values(seed(slot.name), n, deviation);
      for (uint64_t i = 0; slot.name == "inv_freq" && i < n; ++i) {
        values[i] =
            static_cast<float>(std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(n)));
      }
      weights_[std::string(slot.name)] = builder_.add_weight(
          std::string(slot.name), matrix ? run_.weights : BP_DTYPE_F32, dims, values);
    }
  }
  void add_kv() {
    if (find_attribute(schema_, "kv_slot") == nullptr) return;
    has_kv_ = true;
    const auto n_kv_heads = static_cast<uint32_t>(*symbol("n_kv_heads"));
    const auto k_dim = static_cast<uint32_t>(*symbol("head_dim"));
    const auto v_dim = static_cast<uint32_t>(*symbol("v_head_dim"));
    builder_.add_kv_slot({builder_.add_kv_group(), n_kv_heads, k_dim, v_dim});
    if (has("k")) return;
    auto write = make_growable<bp_attr_kv_write>();
    builder_.add_op(BP_OP_KV_WRITE,
                    {random_rows("k", uint64_t{n_kv_heads} * k_dim),
                     random_rows("v", uint64_t{n_kv_heads} * v_dim)},
                    {}, {}, ProgramBuilder::attributes(write));
  }
  uint32_t add_selected_slot(uint64_t n) {
    const uint32_t value = builder_.add_value(n, BP_ROWS_OUTPUT, 0);
    builder_.add_output(value);
    return value;
  }

  static uint32_t find(const std::map<std::string, uint32_t>& map, std::string_view name) {
    const auto it = map.find(std::string(name));
    return it == map.end() ? BP_NONE : it->second;
  }
  void add_op() {
    std::vector<uint32_t> inputs, outputs, weights;
    for (const SlotSchema& slot : schema_.inputs) inputs.push_back(find(inputs_, slot.name));
    for (const SlotSchema& slot : schema_.outputs) outputs.push_back(find(outputs_, slot.name));
    for (const SlotSchema& slot : schema_.weights) weights.push_back(find(weights_, slot.name));
    builder_.add_op(spec_.name, inputs, outputs, weights, attributes_);
  }

  void add_body() {
    std::vector<const BodyEntry*> entries;
    for (const BodyEntry& entry : spec_.body) {
      if (expect(Expression::condition(entry.when, scope()))) entries.push_back(&entry);
    }
    std::map<std::string, uint32_t> variables = inputs_;
    for (size_t i = 0; i < entries.size(); ++i) {
      add_primitive(*entries[i], entries, i, variables);
    }
  }
  void add_primitive(const BodyEntry& entry, const std::vector<const BodyEntry*>& entries,
                     size_t at, std::map<std::string, uint32_t>& variables) {
    const OpSchema& primitive = schema_of(entry.op);
    std::vector<uint32_t> inputs, outputs, weights;
    OpShapes shapes;
    for (const std::string& name : entry.in) {
      inputs.push_back(variables.at(name));
      shapes.inputs.push_back(builder_.value(inputs.back()).width);
    }
    for (const std::string& name : entry.weights) {
      weights.push_back(find(weights_, name));
      if (weights.back() == BP_NONE) continue;
      const bp_weight_part& part = builder_.weight_part(weights.back());
      shapes.weights.push_back(std::vector<uint64_t>(part.dims, part.dims + part.n_dims));
    }
    AttributeBuffer attributes = default_attributes(primitive);
    for (const auto& [name, text] : entry.attributes) {
      set_from_text(primitive, name, expect(Expression::evaluate(text, scope())), attributes);
    }
    const auto symbols = ShapeSymbols::bind(primitive, attributes.data(), shapes);
    for (uint32_t o = 0; o < entry.out.size(); ++o) {
      const bool last = is_last_write(entry.out[o], entries, at);
      const uint32_t slot = last ? find(outputs_, entry.out[o]) : BP_NONE;
      outputs.push_back(slot != BP_NONE ? slot
                                        : builder_.add_value(expect(symbols.output_width(o))));
      variables[entry.out[o]] = outputs.back();
    }
    builder_.add_op(entry.op, inputs, outputs, weights, attributes);
  }
  static bool is_last_write(const std::string& name, const std::vector<const BodyEntry*>& entries,
                            size_t at) {
    for (size_t i = at + 1; i < entries.size(); ++i) {
      if (std::find(entries[i]->out.begin(), entries[i]->out.end(), name) != entries[i]->out.end())
        return false;
    }
    return true;
  }

  void select_outputs() {
    for (const SlotSchema& slot : schema_.outputs) {
      const uint32_t value = find(outputs_, slot.name);
      if (value == BP_NONE) continue;
      if (slot.shape.front() != 'R') builder_.add_selected_output(value);
      output_widths_.push_back(builder_.value(value).width);
    }
  }

  const OpSpec& spec_;
  const OpCase& case_;
  const CaseRun& run_;
  const OpSchema& schema_;
  ProgramBuilder builder_;
  AttributeBuffer attributes_;
  uint32_t n_rows_ = 0, ids_ = BP_NONE;
  bool has_kv_ = false;
  std::map<std::string, uint32_t> inputs_, outputs_, weights_;
  std::vector<uint64_t> output_widths_;
};

// Blocks of sequence s, of its own.
std::vector<int32_t> blocks_of(uint32_t s, uint32_t n_tokens, uint32_t block_size,
                               uint32_t per_sequence) {
  std::vector<int32_t> blocks;
  for (uint32_t i = 0; i * block_size < n_tokens; ++i) {
    blocks.push_back(static_cast<int32_t>(1 + s * per_sequence + i));
  }
  return blocks;
}

class CaseSteps {
 public:
  CaseSteps(CaseProgram& program, const OpCase& c, uint32_t block_size)
      : program_(program), case_(c), block_size_(block_size) {}

  // The part that is cached (false) or the part that is looked at (true).
  BatchBuilder batch(bool looked_at) const {
    BatchBuilder batch;
    uint32_t row = 0;
    for (uint32_t s = 0; s < case_.sequences.size(); ++s) {
      const auto [n_cached, n_new] = case_.sequences[s];
      const uint32_t first = looked_at ? n_cached : 0, n = looked_at ? n_new : n_cached;
      std::vector<int32_t> tokens;
      for (uint32_t i = 0; i < n; ++i) tokens.push_back(program_.token_id(row + first + i));
      if (n > 0) {
        batch.add_sequence(tokens, static_cast<int32_t>(first),
                           blocks_of(s, first + n, block_size_, blocks_each()));
      }
      row += n_cached + n_new;
    }
    return batch;
  }
  [[nodiscard]] uint32_t blocks_each() const {
    uint32_t longest = 0;
    for (const auto& s : case_.sequences) longest = std::max(longest, s.n_cached + s.n_new);
    return (longest + block_size_ - 1) / block_size_;
  }

 private:
  CaseProgram& program_;
  const OpCase& case_;
  uint32_t block_size_;
};

}  // namespace

std::vector<std::vector<float>> run_case(const bp_backend_factory& factory, const OpSpec& spec,
                                         const OpCase& c, const CaseRun& run) {
  CaseProgram program(spec, c, run);
  BackendSession session(factory);
  bp_compile_options options = BackendSession::default_options();
  options.max_step_tokens = 2048;
  options.k_dtype = options.v_dtype = run.kv;
  options.block_size = kBlockSize;
  session.compile(program.builder().build(), options, 1024);
  const CaseSteps steps(program, c, session.memory().block_size);
  const uint32_t n_groups = program.has_kv() ? 1 : 0;

  BatchBuilder cached = steps.batch(false);
  if (program.has_kv() && cached.n_tokens() > 0) expect(session.run(cached.build(n_groups)));

  BatchBuilder looked_at = steps.batch(true);
  std::vector<uint32_t> rows = c.select;
  for (uint32_t t = 0; !c.selects && t < looked_at.n_tokens(); ++t) rows.push_back(t);
  for (uint32_t o = 0; o < program.output_widths().size(); ++o) {
    looked_at.add_output(o, rows, program.output_widths()[o]);
  }
  expect(session.run(looked_at.build(n_groups)));
  std::vector<std::vector<float>> outputs;
  for (size_t o = 0; o < program.output_widths().size(); ++o)
    outputs.push_back(looked_at.output(o));
  return outputs;
}

std::string compare(const std::vector<float>& reference, const std::vector<float>& found,
                    const ErrorBound& bound) {
  if (reference.size() != found.size()) return "the sizes differ";
  if (reference.empty()) return {};
  const auto n = static_cast<double>(reference.size());
  double sum = 0, squares = 0, error_squares = 0, largest = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double x = reference[i], error = std::abs(x - static_cast<double>(found[i]));
    if (std::isnan(error)) return "NaN at " + std::to_string(i);
    sum += x;
    squares += x * x;
    error_squares += error * error;
    largest = std::max(largest, error);
  }
  const double deviation = std::sqrt(std::max(squares / n - sum / n * sum / n, 0.0));
  const double rms = error_squares == 0 ? 0 : std::sqrt(error_squares / squares);
  const double max = largest == 0 ? 0 : largest / deviation;
  if (rms <= bound.rms && max <= bound.max) return {};
  return "rms error " + std::to_string(rms) + " (bound " + std::to_string(bound.rms) + "), max " +
         std::to_string(max) + " (bound " + std::to_string(bound.max) + ")";
}

}  // namespace bp::conformance
