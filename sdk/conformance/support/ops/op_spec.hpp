#pragma once
// The spec files sdk/ops/NAME.yaml as structs.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "backplane/dtype.h"

namespace bp::conformance {

struct SpecSlot {
  std::string name, shape;  // "N, dim"
  bool optional = false;
  std::string dtype;  // "" where the file says none
  uint32_t since = 1;
};

struct SpecAttribute {
  std::string name, type, default_value;
  bool required = false;
  std::vector<std::string> values;
  uint32_t since = 1;
};

struct BodyEntry {
  std::string op, when;
  std::vector<std::string> in, out, weights;
  std::map<std::string, std::string> attributes;  // expressions
};

struct ErrorBound {
  double rms = 0;  // rms(error) / rms(reference)
  double max = 0;  // max(abs(error)) / deviation(reference)
};

struct CaseSequence {
  uint32_t n_cached, n_new;
};

struct OpCase {
  std::string name;
  std::vector<CaseSequence> sequences;
  std::map<std::string, uint64_t> sizes;
  std::map<std::string, std::string> attributes;  // values as text
  std::vector<std::string> with;
  std::vector<bp_dtype> dtypes;
  std::vector<bp_dtype> kv_dtypes;
  std::vector<uint32_t> select;  // rows; every new token where the file says nothing
  bool selects = false;
  uint64_t repeat = 1;
  bp_dtype last_weights = BP_DTYPE_NONE;  // of the last matrix, where it is not the others'
  uint64_t row_gap_bytes = 0;             // between the rows of matrices
};

struct OpSpec {
  std::string name, summary;
  uint32_t version = 0;
  std::vector<SpecSlot> inputs, outputs, weights;
  std::vector<SpecAttribute> attributes;
  std::map<std::string, ErrorBound> bounds;
  std::vector<BodyEntry> body;
  std::vector<OpCase> cases;

  // The bound for a run; throws where the file has none.
  [[nodiscard]] ErrorBound bound(bp_dtype weights, bp_dtype kv) const;
};

// All specs of a folder, sorted by name. Throws on a malformed file.
[[nodiscard]] std::vector<OpSpec> load_op_specs(const std::filesystem::path& folder);

}  // namespace bp::conformance
