// GGUF files that hold each expert's gate and up in one tensor, the gate's rows first.

#include <gtest/gtest.h>

#include <cstring>

#include <nlohmann/json.hpp>

#include "backplane/ops.h"
#include "backplane/plugin.hpp"
#include "tests/core/model/support/backend_runner.hpp"
#include "tests/core/model/support/family_goldens.hpp"

namespace bp::model::test {
namespace {

std::vector<float> values_in(ModelFile& file, const std::string& name) {
  const auto data = file.data(*file.find_tensor(name));
  EXPECT_TRUE(data.ok()) << data.status().message();
  std::vector<float> values(data->n_bytes / sizeof(float));
  std::memcpy(values.data(), data->data, data->n_bytes);
  return values;
}

void fuse_experts(FakeModel& fake, ModelFile& file) {
  for (const bp_tensor& tensor : file.tensors()) {
    const std::string gate(view(tensor.name)), end = "ffn_gate_exps.weight";
    if (!gate.ends_with(end)) continue;
    const std::string layer = gate.substr(0, gate.size() - end.size());
    const std::string up = layer + "ffn_up_exps.weight";
    const auto of_gate = values_in(file, gate), of_up = values_in(file, up);
    const uint64_t n_experts = tensor.dims[0];
    const auto one = static_cast<ptrdiff_t>(of_gate.size() / n_experts);
    std::vector<float> both;
    for (uint64_t e = 0; e < n_experts; ++e) {
      for (const auto& values : {of_gate, of_up}) {
        const auto first = values.begin() + static_cast<ptrdiff_t>(e) * one;
        both.insert(both.end(), first, first + one);
      }
    }
    fake.remove(gate).remove(up).tensor(layer + "ffn_gate_up_exps.weight",
                                        {n_experts, 2 * tensor.dims[1], tensor.dims[2]},
                                        BP_DTYPE_F32, both);
  }
}

// The bytes of all experts' gates and ups, in the order of the ops.
std::vector<std::string> experts_of(const LoadedModel& model) {
  constexpr size_t kGate = 3, kUp = 4;  // of the op's weights
  std::vector<std::string> out;
  const ProgramParts& parts = model.program.parts();
  for (const Op& op : parts.ops) {
    if (std::string_view(op.schema->kind) != BP_OP_MOE) continue;
    for (const size_t slot : {kGate, kUp}) {
      const bp_weight_part& part = parts.weights[op.weights[slot]].parts[0];
      out.emplace_back(static_cast<const char*>(part.data), part.n_bytes);
    }
  }
  return out;
}

class FusedExpertsTest : public ::testing::TestWithParam<std::string> {};

TEST_P(FusedExpertsTest, AreTakenApart) {
  const auto golden = family_golden(GetParam());
  FakeModel apart("gguf"), fused("gguf");
  for (FakeModel* fake : {&apart, &fused}) {
    fill_family(*fake, golden["gguf"]["metadata"], golden["gguf"]);
  }
  const auto file = apart.open();
  ASSERT_TRUE(file.ok()) << file.status().message();
  fuse_experts(fused, **file);
  const auto expected = apart.load(source_folders(), true);
  const auto found = fused.load(source_folders(), true);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_FALSE(experts_of(*expected).empty());
  EXPECT_EQ(experts_of(*found), experts_of(*expected));
}

INSTANTIATE_TEST_SUITE_P(Families, FusedExpertsTest,
                         ::testing::Values("qwen3moe", "mixtral", "lfm2moe", "deepseek3"),
                         family_case_name);

}  // namespace
}  // namespace bp::model::test
