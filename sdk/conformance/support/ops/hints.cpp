#include "sdk/conformance/support/ops/hints.hpp"

#include <algorithm>
#include <functional>

#include "backplane/op_schema.hpp"
#include "sdk/conformance/support/reference_factory.hpp"

namespace bp::conformance {

namespace {

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

// Parts of the values, and which of them are out of the bound.
class Parts {
 public:
  Parts(const std::vector<float>& expected, const std::vector<float>& found,
        const ErrorBound& bound)
      : expected_(expected), found_(found), bound_(bound) {}

  // `n` runs of `width` values, each row beginning every `stride`.
  [[nodiscard]] std::vector<uint64_t> wrong_columns(uint64_t n, uint64_t width) const {
    std::vector<uint64_t> wrong;
    for (uint64_t part = 0; part < n; ++part) {
      if (!is_right([&](uint64_t i) { return i / width % n == part; })) wrong.push_back(part);
    }
    return wrong;
  }
  [[nodiscard]] bool is_right(const std::function<bool(uint64_t i)>& belongs) const {
    std::vector<float> expected, found;
    for (uint64_t i = 0; i < expected_.size(); ++i) {
      if (!belongs(i)) continue;
      expected.push_back(expected_[i]);
      found.push_back(found_[i]);
    }
    return difference(expected, found, bound_).within;
  }

 private:
  const std::vector<float>& expected_;
  const std::vector<float>& found_;
  const ErrorBound& bound_;
};

std::string listed(const std::vector<uint64_t>& numbers) {
  std::string text;
  for (const uint64_t n : numbers) text += (text.empty() ? "" : ", ") + std::to_string(n);
  return text;
}

// Of attention: heads that are wrong, and whether only the last token of each sequence is right.
std::string pattern_of_attention(const OpCase& c, const Parts& parts, uint64_t n_values) {
  const auto n_heads = static_cast<uint64_t>(std::stoull(c.attributes.at("n_heads")));
  uint64_t n_rows = 0;
  std::vector<uint64_t> last_rows;
  for (const CaseSequence& sequence : c.sequences)
    last_rows.push_back((n_rows += sequence.n_new) - 1);
  const uint64_t width = n_values / n_rows;
  const auto heads = parts.wrong_columns(n_heads, width / n_heads);
  if (!heads.empty() && heads.size() < n_heads) {
    return "of " + std::to_string(n_heads) + " heads only these are wrong: " + listed(heads);
  }
  const auto is_last = [&](uint64_t i) {
    return std::find(last_rows.begin(), last_rows.end(), i / width) != last_rows.end();
  };
  if (last_rows.size() < n_rows && parts.is_right(is_last)) {
    return "only the last token of each sequence is right: the others see too much or too little "
           "after them";
  }
  return {};
}

}  // namespace

std::string hint_of(const OpSpec& spec, const OpCase& c, const CaseRun& run, size_t output,
                    const std::vector<float>& expected, const std::vector<float>& found,
                    const ErrorBound& bound) {
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
  const bool attends = spec.name == BP_OP_ATTENTION || spec.name == BP_OP_ATTEND;
  return attends ? pattern_of_attention(c, {expected, found, bound}, found.size()) : "";
}

}  // namespace bp::conformance
