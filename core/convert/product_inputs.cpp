#include "core/convert/product_inputs.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "backplane/ops.h"

namespace bp::convert {

namespace {

using model::Op;
using model::ProgramParts;

// Several products in one op, whose inputs are made inside it.
constexpr std::array<std::string_view, 2> kTakenApart = {BP_OP_GATED_MLP, BP_OP_MOE};

// Rewrites a program op by op, so that each row passes through all of it.
class Observation {
 public:
  explicit Observation(const ProgramParts& old) : old_(old), mapped_(old.values.size(), BP_NONE) {}

  Result<ObservedProgram> run() {
    new_.weights = old_.weights;
    new_.kv_slots = old_.kv_slots;
    new_.kv_groups = old_.kv_groups;
    new_.state_slots = old_.state_slots;
    new_.owned = old_.owned;
    for (const uint32_t input : old_.inputs) {
      mapped_[input] = new_.add_value(old_.values[input]);
      new_.inputs.push_back(mapped_[input]);
    }
    for (const Op& op : old_.ops) BP_TRY(copy(op));
    BP_ASSIGN(auto program, model::Program::create(std::move(new_)));
    return ObservedProgram{std::move(program), std::move(inputs_)};
  }

 private:
  [[nodiscard]] uint32_t map(uint32_t value) const {
    return value == BP_NONE ? BP_NONE : mapped_[value];
  }

  Status copy(const Op& op) {
    const std::string_view kind = op.schema->kind;
    if (kind == BP_OP_LM_HEAD) return {};
    if (kind == BP_OP_SELECT_ROWS) {
      mapped_[op.outputs[0]] = map(op.inputs[0]);
      return {};
    }
    BP_TRY(observe(op));
    Op copied = op;
    for (uint32_t& input : copied.inputs) input = map(input);
    BP_ASSIGN(const Op* added, append_op(new_, std::move(copied)));
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      if (op.outputs[i] != BP_NONE) mapped_[op.outputs[i]] = added->outputs[i];
    }
    return {};
  }

  Status observe(const Op& op) {
    const std::string_view kind = op.schema->kind;
    if (kind == BP_OP_MATMUL || kind == BP_OP_LINEAR || kind == BP_OP_QKV) {
      const size_t n_products = kind == BP_OP_QKV ? 3 : 1;
      for (size_t i = 0; i < n_products; ++i) {
        if (op.weights[i] == BP_NONE) continue;
        BP_TRY(add(op, i, BP_NONE, 1, true));
      }
    } else if (kind == BP_OP_GROUP_MATMUL) {
      bp_attr_group_matmul attributes{};
      std::memcpy(&attributes, op.attributes.data(), sizeof attributes);
      const uint64_t width = old_.weights[op.weights[0]].dims().back();
      const bool is_shared = old_.values[op.inputs[0]].width == width;
      const uint32_t ids = op.inputs.size() > 1 ? op.inputs[1] : BP_NONE;
      BP_TRY(add(op, 0, ids, attributes.n_groups, is_shared));
    }
    return {};
  }

  Status add(const Op& op, size_t slot, uint32_t ids, uint64_t n_groups, bool is_shared) {
    const model::Weight& weight = old_.weights[op.weights[slot]];
    const auto dims = weight.dims();
    ProductInput input;
    input.n_matrices = dims.size() > 2 ? dims[0] : 1;
    input.n_groups = n_groups;
    input.width = dims.back();
    input.has_shared_rows = is_shared;
    BP_ASSIGN(input.output, output_of(op.inputs[0]));
    input.ids = BP_NONE;
    if (ids != BP_NONE) {
      BP_ASSIGN(input.ids, output_of(ids));
    }
    const auto same = std::ranges::find_if(inputs_, [&](const ProductInput& other) {
      return other.output == input.output && other.ids == input.ids &&
             other.n_matrices == input.n_matrices && other.n_groups == input.n_groups;
    });
    ProductInput& kept = same == inputs_.end() ? inputs_.emplace_back(std::move(input)) : *same;
    kept.weights.push_back(weight.name);
    return {};
  }

  // The program output that holds all rows of an old value.
  Result<uint32_t> output_of(uint32_t old_value) {
    const uint32_t value = map(old_value);
    const auto [at, is_new] = outputs_.emplace(value, static_cast<uint32_t>(new_.outputs.size()));
    if (!is_new) return at->second;
    Op select;
    select.schema = find_op_schema(BP_OP_SELECT_ROWS);
    select.name = fmt::format("observed.{}", at->second);
    select.inputs = {value};
    select.outputs = {0};
    select.attributes = default_attributes(*select.schema);
    BP_ASSIGN(const Op* added, append_op(new_, std::move(select), at->second));
    new_.outputs.push_back(added->outputs[0]);
    return at->second;
  }

  const ProgramParts& old_;
  ProgramParts new_;
  std::vector<uint32_t> mapped_;          // old value to new
  std::map<uint32_t, uint32_t> outputs_;  // new value to the program output that holds it
  std::vector<ProductInput> inputs_;
};

}  // namespace

Result<ObservedProgram> observe_products(const model::Program& program,
                                         const model::OpBodies& bodies) {
  const auto& ops = program.parts().ops;
  std::vector<bool> inlined;
  for (const Op& op : ops) {
    inlined.push_back(std::ranges::count(kTakenApart, op.schema->kind) > 0);
  }
  BP_ASSIGN(const model::Program apart, inline_ops(program, bodies, inlined));
  return Observation(apart.parts()).run();
}

ProductSums::ProductSums(std::vector<ProductInput> inputs) : inputs_(std::move(inputs)) {
  for (const ProductInput& input : inputs_) {
    sums_.push_back({std::vector<double>(input.n_matrices * input.width),
                     std::vector<double>(input.n_matrices)});
  }
}

void ProductSums::add_one(const ProductInput& input, const std::vector<std::vector<float>>& outputs,
                          uint32_t n_rows, Sums& sums) {
  const uint64_t stride = input.has_shared_rows ? 0 : input.width;
  const uint64_t row_width = input.has_shared_rows ? input.width : input.width * input.n_groups;
  for (uint64_t t = 0; t < n_rows; ++t) {
    for (uint64_t g = 0; g < input.n_groups; ++g) {
      uint64_t matrix = input.n_matrices == 1 ? 0 : g;
      if (input.ids != BP_NONE) {
        const float id = outputs[input.ids][t * input.n_groups + g];
        matrix =
            static_cast<uint64_t>(std::clamp(id, 0.0f, static_cast<float>(input.n_matrices - 1)));
      }
      const float* x = outputs[input.output].data() + t * row_width + g * stride;
      double* of_matrix = sums.sums.data() + matrix * input.width;
      for (uint64_t i = 0; i < input.width; ++i) of_matrix[i] += double{x[i]} * x[i];
      sums.counts[matrix] += 1;
    }
  }
}

void ProductSums::add(const std::vector<std::vector<float>>& outputs, uint32_t n_rows,
                      const bp_threads& threads) {
  struct Job {
    ProductSums* self;
    const std::vector<std::vector<float>>& outputs;
    uint32_t n_rows;
  } job{this, outputs, n_rows};
  const auto run = [](void* user, uint64_t i) {
    const auto& j = *static_cast<Job*>(user);
    add_one(j.self->inputs_[i], j.outputs, j.n_rows, j.self->sums_[i]);
  };
  threads.parallel_for(threads.user, inputs_.size(), run, &job);
}

std::map<std::string, InputSquares> ProductSums::squares() const {
  std::map<std::string, InputSquares> out;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Sums& sums = sums_[i];
    for (const std::string& weight : inputs_[i].weights) {
      out[weight] = {inputs_[i].width,
                     {sums.sums.begin(), sums.sums.end()},
                     {sums.counts.begin(), sums.counts.end()}};
    }
  }
  return out;
}

}  // namespace bp::convert
