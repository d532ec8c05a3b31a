#include "sdk/conformance/support/ops/hints.hpp"

#include <algorithm>
#include <functional>

#include "backplane/op_schema.hpp"
#include "backplane/reference/backend.hpp"

namespace bp::conformance {

namespace {

constexpr bp_backend_factory kReference = backend_factory<reference::ReferenceBackend>();

struct Suspicion {
  std::string text;
  OpCase c;
  CaseRun run;
};

class Suspicions {
 public:
  Suspicions(const OpCase& c, const CaseRun& run) : case_(c), run_(run) {}

  void attribute(const std::string& name, const std::string& value) {
    OpCase changed = case_;
    changed.attributes[name] = value;
    const auto given = case_.attributes.find(name);
    if (given != case_.attributes.end() && given->second == value) return;
    list_.push_back({"with " + name + " = " + value +
                         (given == case_.attributes.end() ? "" : " instead of " + given->second),
                     changed, run_});
  }
  void without(const std::string& slot) {
    OpCase changed = case_;
    std::erase(changed.with, slot);
    if (changed.with.size() < case_.with.size()) {
      list_.push_back({"without " + slot, changed, run_});
    }
  }
  void positions_later() {
    CaseRun changed = run_;
    ++changed.first_position;
    list_.push_back({"with each position one higher", case_, changed});
  }
  void float_weights() {
    CaseRun changed = run_;
    changed.weights = BP_DTYPE_F32;
    if (run_.weights != BP_DTYPE_F32) list_.push_back({"with weights of f32", case_, changed});
  }
  [[nodiscard]] const std::vector<Suspicion>& list() const { return list_; }

 private:
  const OpCase& case_;
  const CaseRun& run_;
  std::vector<Suspicion> list_;
};

void suspect_attribute(const AttributeSchema& field, const OpCase& c, Suspicions& out) {
  const std::string name(field.name);
  const auto given = c.attributes.find(name);
  if (field.type == AttributeType::kEnum) {
    for (const std::string_view value : field.enum_names) out.attribute(name, std::string(value));
  } else if (field.type == AttributeType::kF32) {
    for (const char* value : {"0", "1"}) out.attribute(name, value);
  } else if (name == "causal") {
    out.attribute(name, given != c.attributes.end() && given->second == "0" ? "1" : "0");
  } else if ((name == "window" || name == "group" || name == "first") &&
             given != c.attributes.end()) {
    const auto value = std::stoll(given->second);
    out.attribute(name, std::to_string(value + 1));
    if (value > 0) out.attribute(name, std::to_string(value - 1));
    out.attribute(name, "0");
  }
}

bool knows_positions(const OpSchema& schema) {
  return schema.inputs[0].shape.front() == 'T' && schema.inputs[0].dtype == BP_DTYPE_F32 &&
         find_attribute(schema, "kv_slot") == nullptr;
}

// The reference's rows, or none where the changed case is no valid program.
std::vector<std::vector<float>> try_reference(const OpSpec& spec, const Suspicion& suspicion) {
  try {
    return run_case(kReference, spec, suspicion.c, suspicion.run);
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace

std::string hint_of(const OpSpec& spec, const OpCase& c, const CaseRun& run, size_t output,
                    const std::vector<float>& found, const ErrorBound& bound) {
  const OpSchema* schema = find_op_schema(spec.name);
  if (schema == nullptr) return {};
  Suspicions suspicions(c, run);
  for (const AttributeSchema& field : schema->attributes) suspect_attribute(field, c, suspicions);
  for (const std::string& slot : c.with) suspicions.without(slot);
  if (knows_positions(*schema)) suspicions.positions_later();
  suspicions.float_weights();
  for (const Suspicion& suspicion : suspicions.list()) {
    const auto rows = try_reference(spec, suspicion);
    if (output < rows.size() && !rows[output].empty() &&
        difference(rows[output], found, bound).within) {
      return "it equals the result " + suspicion.text;
    }
  }
  const auto zero = [](float x) { return x == 0; };
  if (std::all_of(found.begin(), found.end(), zero)) return "all of it is zero";
  return {};
}

}  // namespace bp::conformance
