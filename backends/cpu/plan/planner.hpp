#pragma once
// From a program to a plan. Ops become stages one by one, with what can be fused held back until
// the stage that consumes it: norms and selected rows go into the next product, residuals into the
// product before, head norms and rotations into attention. A llama layer becomes five stages.

#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backends/cpu/plan/plan.hpp"
#include "backends/cpu/rows/head_source.hpp"
#include "backends/cpu/rows/row_source.hpp"
#include "backends/cpu/stages/attention_stage.hpp"
#include "backends/cpu/stages/experts_stage.hpp"
#include "backends/cpu/stages/matmul_stage.hpp"
#include "backends/cpu/stages/row_stage.hpp"
#include "backends/cpu/weights/weight_store.hpp"
#include "backplane/overrides.hpp"
#include "backplane/program_view.hpp"

namespace bp::cpu {

class Planner {
 public:
  // The program has passed check; its weights' data outlives the plan. max_tokens: of a step; 0
  // plans for few.
  Planner(const ProgramView& program, WeightStore& weights, Prepare prepare,
          const Overrides& overrides = {}, uint32_t max_tokens = 0);

  // Its weights are still to be placed.
  Result<Plan> run();

 private:
  // Which ops read a value, program outputs counting as BP_NONE.
  struct Use {
    std::vector<uint32_t> ops;
  };

  Status plan_op(uint32_t index);

  // plan_products.cpp
  Status plan_linear(const bp_op& op);
  Status plan_matmul(const bp_op& op);
  Status plan_lm_head(const bp_op& op);
  Status plan_qkv(const bp_op& op);
  Status plan_gated_mlp(const bp_op& op);
  Status plan_product(const bp_op& op, MatmulSpec spec);
  // Cuts rows into passes where an intermediate of so many columns is large for all of them.
  [[nodiscard]] RowCount in_passes(RowCount count, uint32_t width) const;
  void add_passes(MatmulSpec hidden, MatmulSpec down);
  // The buffer for the product that becomes value y; may name a residual to be added to it.
  uint32_t open_product(uint32_t y, std::optional<uint32_t>& residual);
  // Rows [first, first + n) of a weight of the op.
  Status add_projection(MatmulSpec& spec, const bp_op& op, uint32_t slot, uint64_t first,
                        uint64_t n, const float* bias, uint32_t out);

  // plan_overrides.cpp; those that look for a kernel answer whether they found one
  Status add_products(const bp_op& op, MatmulSpec spec);
  void take_apart(MatmulSpec spec, const BoundKernelPtr& activation);
  void finish_product(const MatmulSpec& spec, const Projection& projection, uint32_t product,
                      const BoundKernelPtr& activation);
  void finish_gated(const MatmulSpec& spec, std::span<const uint32_t> products,
                    const BoundKernelPtr& activation);
  uint32_t activated(const BoundKernelPtr& kernel, RowCount count, uint32_t product,
                     const float* bias, uint32_t width);
  Result<bool> norm_by_kernel(const bp_op& op, const bp_attr_norm& attributes,
                              const RowSource& source);
  Result<bool> head_norm_by_kernel(const bp_op& op, uint32_t i);  // 0: of queries, 1: of keys
  Result<bool> activate_by_kernel(const bp_op& op);
  void add_kernel(BoundKernelPtr kernel, RowCount count, uint32_t in, uint32_t out);
  uint32_t stored_rows(const RowSource& source);  // a buffer that holds them

  // plan_rows.cpp
  Status plan_embed(const bp_op& op, float scale);
  Status plan_norm(const bp_op& op);
  Status plan_normalize(const bp_op& op);
  Status plan_select_rows(const bp_op& op);
  Status plan_pair(const bp_op& op, bool multiplies);
  Status plan_residual_scale(const bp_op& op);
  Status plan_slice(const bp_op& op);
  using RowFunction = void (*)(const Kernels& kernels, uint32_t activation, float a, const float* x,
                               float* y, size_t n);
  Status plan_unary(const bp_op& op, uint32_t activation, float a, RowFunction function);

  // plan_groups.cpp
  Status plan_slice_groups(const bp_op& op);
  Status plan_concat_groups(const bp_op& op);
  Status plan_clamp(const bp_op& op);
  Status plan_add_positions(const bp_op& op);

  // plan_experts.cpp
  Status plan_moe(const bp_op& op);
  void take_experts_apart(const ExpertsSpec& spec, const BoundKernelPtr& activation);
  Matrices matrices(const bp_op& op, uint32_t slot, uint32_t n_rows, bool are_chosen);
  Status plan_route(const bp_op& op);
  struct RouteBuffers {
    RowCount count;
    uint32_t logits, ids, shares;
  };
  void add_route(const bp_attr_route& attributes, const float* bias, const RouteBuffers& buffers,
                 uint32_t n_experts);
  Status plan_group_matmul(const bp_op& op);
  Status plan_group_sum(const bp_op& op);
  void add_group_sum(RowCount count, uint32_t x, uint32_t shares, uint32_t n_groups, uint32_t out,
                     uint32_t width);

  // plan_recurrent.cpp
  Status plan_short_conv(const bp_op& op);
  Status plan_gated_delta(const bp_op& op);

  // plan_attention.cpp
  Status plan_rope(const bp_op& op);
  Status plan_rotate(const bp_op& op);
  Status plan_attention(const bp_op& op);
  Status plan_kv_write(const bp_op& op);
  uint32_t rope_table(uint32_t weight, uint32_t n_dims, float magnitude);
  // Whether an op can load the heads of value `index` from `heads`.
  [[nodiscard]] bool loads_heads(const bp_op& op, uint32_t index, const HeadSource& heads) const;
  // Lets the consumer load the heads of `value` from `heads`, or stores them now where it cannot.
  void provide_heads(uint32_t value, const HeadSource& heads);
  HeadSource take_heads(uint32_t value, uint32_t head_dim);

  // plan_values.cpp
  std::shared_ptr<const PreparedWeight> add_weight(const WeightRows& rows, bool is_chosen);
  uint32_t add_buffer(RowCount count, uint32_t width);
  [[nodiscard]] const bp_value& value(uint32_t index) const { return program_.values()[index]; }
  [[nodiscard]] RowCount count_of(uint32_t index) const;
  // The buffer of a value that stands in memory; what was held back is computed now.
  uint32_t buffer_of(uint32_t index);
  void open(uint32_t index);  // gives a value its buffer
  void store_rows(const RowSource& source, uint32_t out);
  // The rows of a value for a product, with what was held back.
  RowSource take_rows(uint32_t index);
  [[nodiscard]] std::optional<uint32_t> only_consumer(uint32_t index) const;
  [[nodiscard]] bool feeds_product(uint32_t index) const;
  const float* vector(const bp_op& op, uint32_t slot);
  const float* decode_vector(uint32_t weight);
  template <class S, class... A>
  S& add_stage(A&&... arguments) {
    auto stage = std::make_unique<S>(std::forward<A>(arguments)...);
    S& added = *stage;
    plan_.stages.push_back(std::move(stage));
    return added;
  }
  RowStage& add_rows(RowCount count, std::vector<uint32_t> reads, std::vector<uint32_t> writes,
                     RowStage::Function function);

  const ProgramView& program_;
  WeightStore& weights_;
  const Prepare prepare_;
  const Overrides overrides_;
  const uint32_t max_tokens_;

  Plan plan_;
  std::vector<Use> uses_;                         // of values
  std::vector<std::optional<uint32_t>> buffers_;  // of values
  std::vector<uint32_t> producers_;               // op that writes a value
  std::map<uint32_t, RowSource> held_rows_;       // values not yet computed
  std::map<uint32_t, HeadSource> held_heads_;
  std::map<uint32_t, uint32_t> summed_;       // norm op -> buffer that holds x + residual
  std::map<uint32_t, const float*> vectors_;  // by weight
  struct TableKey {
    uint32_t weight, n_dims;
    float magnitude;
    auto operator<=>(const TableKey&) const = default;
  };
  std::map<TableKey, uint32_t> rope_tables_;
  uint32_t op_index_ = 0;
};

}  // namespace bp::cpu
