#include "sdk/conformance/support/ops/case_variants.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "backplane/dtype.hpp"
#include "backplane/op_shapes.hpp"

namespace bp::conformance {

namespace {

struct DerivedCase {
  OpCase c;
  double bound_factor = 1;
};

// Symbols that are the last dimension of a matrix: blocks of a quantised type divide them.
std::set<std::string> row_symbols(const OpSchema& schema) {
  std::set<std::string> symbols;
  for (const SlotSchema& slot : schema.weights) {
    const auto dims = ShapeSymbols::split(slot.shape);
    if (dims.size() > 1) symbols.insert(dims.back());
  }
  return symbols;
}

std::vector<bp_dtype> all_dtypes(const OpSpec& spec) {
  std::set<bp_dtype> dtypes;
  for (const OpCase& c : spec.cases) dtypes.insert(c.dtypes.begin(), c.dtypes.end());
  return {dtypes.begin(), dtypes.end()};
}

bool has_free_sizes(const OpCase& c) {
  const bool in_groups = c.attributes.count("group") > 0 || c.attributes.count("n_groups") > 0;
  return !c.sizes.empty() && c.repeat == 1 && !c.selects && !in_groups;
}

OpCase with_rows(OpCase c, uint32_t n_rows) {
  c.sequences = {{0, n_rows}};
  return c;
}

// One row and more, widths beside multiples of every vector's, and some as those of small models.
void add_widths(const OpSpec& spec, const OpSchema& schema, std::vector<DerivedCase>& out) {
  if (spec.name == BP_OP_MOE) {  // where rounding moves a choice of experts, no bound holds
    OpCase many = with_rows(spec.cases.front(), 24);
    many.name = "rows-24";
    out.push_back({many});
    return;
  }
  const auto base = std::find_if(spec.cases.begin(), spec.cases.end(), has_free_sizes);
  if (base == spec.cases.end()) return;
  struct Shape {
    uint64_t width;
    uint64_t blocks;  // of 32, for dimensions that quantised rows lie along
    uint32_t n_rows;
  };
  const auto symbols = row_symbols(schema);
  for (const auto& [width, blocks, n_rows] :
       {Shape{33, 3, 1}, {65, 5, 3}, {127, 9, 17}, {321, 40, 41}}) {
    OpCase exact = with_rows(*base, n_rows), quantised = exact;
    for (auto& [symbol, size] : exact.sizes) size = width;
    for (auto& [symbol, size] : quantised.sizes) {
      size = symbols.count(symbol) > 0 ? blocks * 32 : width;
    }
    exact.dtypes = quantised.dtypes = {};
    for (const bp_dtype dtype : all_dtypes(spec)) {
      (is_block_quantised(dtype) ? quantised : exact).dtypes.push_back(dtype);
    }
    exact.name = quantised.name =
        "width-" + std::to_string(width) + "-rows-" + std::to_string(n_rows);
    out.push_back({exact});
    if (!quantised.dtypes.empty()) out.push_back({quantised});
  }
}

// Types whose blocks the specs' cases leave out, on the op that every product becomes and the one
// that reads single rows.
void add_block_types(const OpSpec& spec, std::vector<DerivedCase>& out) {
  if (spec.name != BP_OP_MATMUL && spec.name != BP_OP_LINEAR && spec.name != BP_OP_GATHER &&
      spec.name != BP_OP_EMBED) {
    return;
  }
  OpCase c = with_rows(spec.cases.front(), 9);
  for (auto& [symbol, size] : c.sizes) size = symbol == "n_in" || symbol == "dim" ? 512 : 33;
  const auto covered = all_dtypes(spec);
  c.dtypes = {};
  for (bp_dtype dtype = BP_DTYPE_Q4_0; dtype < BP_DTYPE_COUNT; ++dtype) {
    const bool for_weights = dtype != BP_DTYPE_Q8_1 && dtype != BP_DTYPE_Q8_K;
    if (for_weights && std::find(covered.begin(), covered.end(), dtype) == covered.end()) {
      c.dtypes.push_back(dtype);
    }
  }
  c.name = "blocks";
  out.push_back({c});
}

// Types of 256 to a block on the ops that hold several products or their own, and a last matrix of
// another type than the others, as mixtures of types have them.
void add_super_blocks(const OpSpec& spec, const OpSchema& schema, std::vector<DerivedCase>& out) {
  if (spec.name != BP_OP_QKV && spec.name != BP_OP_GATED_MLP && spec.name != BP_OP_LM_HEAD &&
      spec.name != BP_OP_GROUP_MATMUL) {
    return;
  }
  const auto symbols = row_symbols(schema);
  OpCase c = with_rows(spec.cases.front(), 7);
  for (auto& [symbol, size] : c.sizes) {
    const uint64_t beside = symbol == "n_vocab" ? 600 : 48;
    if (symbol != "n_matrices") size = symbols.count(symbol) > 0 ? 512 : beside;
  }
  c.dtypes = {BP_DTYPE_Q4_K, BP_DTYPE_Q5_K, BP_DTYPE_Q6_K};
  c.name = "super-blocks";
  out.push_back({c});
  if (spec.name != BP_OP_QKV && spec.name != BP_OP_GATED_MLP) return;
  c.dtypes = {BP_DTYPE_Q4_K, BP_DTYPE_Q8_0};
  c.last_weights = BP_DTYPE_Q6_K;
  c.name = "mixed-types";
  out.push_back({c});
}

bool has_matrix(const OpSpec& spec) {
  return std::any_of(spec.weights.begin(), spec.weights.end(), [](const SpecSlot& slot) {
    return slot.shape.find(',') != std::string::npos;
  });
}

// Rows of matrices apart, as in a file that pads them: at addresses that are aligned to floats and
// to nothing more.
void add_row_gaps(const OpSpec& spec, std::vector<DerivedCase>& out) {
  if (!has_matrix(spec)) return;
  OpCase c = *std::max_element(  // of most types
      spec.cases.begin(), spec.cases.end(),
      [](const OpCase& a, const OpCase& b) { return a.dtypes.size() < b.dtypes.size(); });
  for (const bp_dtype dtype : all_dtypes(spec)) {
    const bool is_there = std::find(c.dtypes.begin(), c.dtypes.end(), dtype) != c.dtypes.end();
    if (!is_there && !is_block_quantised(dtype)) c.dtypes.push_back(dtype);
  }
  c.row_gap_bytes = 20;
  c.name = "row-gaps";
  out.push_back({c});
}

// An eps that matters beside values of about 1.
void add_large_eps(const OpSpec& spec, std::vector<DerivedCase>& out) {
  for (const char* attribute : {"eps", "norm_eps"}) {
    for (const OpCase& c : spec.cases) {
      if (c.attributes.count(attribute) == 0) continue;
      OpCase changed = c;
      changed.attributes[attribute] = "0.25";
      changed.dtypes = {BP_DTYPE_F32};
      changed.name += "-large-eps";
      out.push_back({changed});
    }
  }
}

OpCase with_contexts(const OpCase& base, const std::string& name,
                     std::vector<CaseSequence> sequences) {
  OpCase c = base;
  c.name = name;
  c.sequences = std::move(sequences);
  return c;
}

// Contexts at the borders of blocks and windows, heads of odd sizes, scores that overflow exp.
void add_contexts(const OpSpec& spec, std::vector<DerivedCase>& out) {
  const OpCase& base = spec.cases.front();
  out.push_back({with_contexts(base, "first-token", {{0, 1}})});
  out.push_back({with_contexts(base, "block-borders", {{0, 15}, {0, 16}, {0, 17}, {0, 33}})});
  out.push_back(
      {with_contexts(base, "decode-borders", {{15, 1}, {16, 1}, {63, 1}, {64, 1}, {127, 2}})});
  out.push_back({with_contexts(base, "long", {{200, 3}, {0, 130}})});
  out.push_back({with_contexts(base, "longer", {{400, 1}})});
  for (const uint32_t window : {1u, 16u, 17u, 70u}) {
    const std::string name = "window-" + std::to_string(window);
    OpCase c = with_contexts(base, name, {{0, 40}, {15, 1}, {16, 1}, {31, 2}, {90, 1}});
    c.attributes["window"] = std::to_string(window);
    out.push_back({c});
  }
  for (const auto& [dim, scale] : {std::pair{"64", "0.125"}, {"128", "0.09"}}) {
    const std::string name = std::string("head-dim-") + dim;
    OpCase c = with_contexts(base, name, {{70, 2}, {0, 9}});
    c.attributes["head_dim"] = c.attributes["v_head_dim"] = dim;
    c.attributes["n_heads"] = "8";
    c.attributes["n_kv_heads"] = "1";
    c.attributes["scale"] = scale;
    out.push_back({c});
  }
  OpCase grouped = with_contexts(base, "seven-heads-each", {{9, 1}, {0, 5}});
  grouped.attributes["n_heads"] = "14";
  grouped.attributes["n_kv_heads"] = "2";
  out.push_back({grouped});
  OpCase odd = with_contexts(base, "odd-heads", {{18, 2}, {0, 7}});
  odd.attributes["head_dim"] = "20";
  odd.attributes["v_head_dim"] = "12";
  out.push_back({odd});
  OpCase large = with_contexts(base, "large-scores", {{40, 2}, {0, 9}});
  large.attributes["scale"] = "10";
  // Float32 scores of about 100 are off by 1e-5, which exp turns into a relative error.
  out.push_back({large, 20});
}

void add_positions(const OpSpec& spec, std::vector<DerivedCase>& out) {
  for (const char* dim : {"64", "128"}) {
    OpCase c = with_contexts(spec.cases.front(), std::string("head-dim-") + dim, {{70, 2}, {0, 3}});
    c.attributes["head_dim"] = c.attributes["n_dims"] = dim;
    out.push_back({c});
  }
  for (const OpCase& base : spec.cases) {
    out.push_back({with_contexts(base, base.name + "-first-token", {{0, 1}})});
    out.push_back({with_contexts(base, base.name + "-far", {{1500, 3}, {0, 33}})});
  }
}

std::vector<DerivedCase> derived_cases(const OpSpec& spec) {
  std::vector<DerivedCase> out;
  const OpSchema* schema = find_op_schema(spec.name);
  if (schema == nullptr || spec.cases.empty()) return out;
  add_widths(spec, *schema, out);
  add_block_types(spec, out);
  add_super_blocks(spec, *schema, out);
  add_row_gaps(spec, out);
  add_large_eps(spec, out);
  if (spec.name == BP_OP_ATTENTION || spec.name == BP_OP_ATTEND) add_contexts(spec, out);
  if (spec.name == BP_OP_ROPE || spec.name == BP_OP_ROTATE) add_positions(spec, out);
  return out;
}

std::string kebab(std::string text) {
  for (char& c : text) {
    c = std::isalnum(static_cast<unsigned char>(c)) != 0
            ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
            : '-';
  }
  return text;
}

void add_variants(const OpSpec& spec, const DerivedCase& derived, std::vector<CaseVariant>& out) {
  const bool kv = spec.bounds.count("kv_f32") > 0;
  // Every type of the KV cache, since a backend may keep one alone.
  const std::vector<bp_dtype> kv_dtypes =
      kv ? std::vector<bp_dtype>{BP_DTYPE_F32,     BP_DTYPE_F16,  BP_DTYPE_BF16,
                                 BP_DTYPE_F8_E4M3, BP_DTYPE_Q8_0, BP_DTYPE_Q4_0}
         : derived.c.kv_dtypes;
  for (const bp_dtype weights : derived.c.dtypes) {
    for (const bp_dtype kv_dtype : kv_dtypes) {
      CaseVariant variant{derived.c, weights, kv_dtype, derived.bound_factor, "", ""};
      const std::string type(dtype_name(kv ? kv_dtype : weights));
      const bool typed = kv || has_matrix(spec);
      variant.name = kebab("ops-" + spec.name + "-" + derived.c.name + (typed ? "-" + type : ""));
      variant.title = spec.name + ", case " + derived.c.name;
      if (typed) variant.title += (kv ? ", KV cache " : ", weights ") + type;
      out.push_back(std::move(variant));
    }
  }
}

}  // namespace

std::vector<CaseVariant> variants_of(const OpSpec& spec) {
  std::vector<CaseVariant> out;
  for (const OpCase& c : spec.cases) add_variants(spec, {c}, out);
  for (const DerivedCase& derived : derived_cases(spec)) add_variants(spec, derived, out);
  return out;
}

}  // namespace bp::conformance
