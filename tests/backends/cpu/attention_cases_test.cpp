// Attention with the cache in every type under every instruction set against the reference: heads
// of odd sizes, windows, caps, sinks, positions in two spans.

#include <gtest/gtest.h>

#include "backplane/dtype.hpp"
#include "sdk/conformance/support/ops/op_case.hpp"
#include "sdk/conformance/support/reference_factory.hpp"
#include "tests/backends/cpu/isa_backends.hpp"
#include "tests/support/attention_case.hpp"
#include "tests/support/op_specs.hpp"

namespace bp::test {
namespace {

using namespace conformance;

constexpr bp_dtype kKvTypes[] = {BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_Q8_0,
                                 BP_DTYPE_Q4_0};

// 514 positions are two spans; 40 tokens of three heads more rows than kernels take at once.
const AttentionHeads kShapes[] = {
    {"64", 3, 1, 64, 64, {{510, 4}, {0, 40}}},
    {"80", 4, 2, 80, 80, {{70, 3}, {0, 33}}},
    {"96", 2, 2, 96, 96, {{90, 1}, {31, 40}}},
    {"128", 4, 2, 128, 128, {{505, 10}, {5, 66}}},
    {"256", 2, 1, 256, 256, {{64, 5}, {0, 17}}},
    {"values_apart", 5, 1, 40, 72, {{33, 1}, {0, 29}}},
    {"window", 4, 2, 64, 64, {{500, 40}, {0, 90}}, {{"window", "37"}}},
    {"wide_window", 2, 1, 80, 64, {{480, 60}}, {{"window", "495"}}},
    {"softcap", 2, 1, 96, 96, {{70, 3}, {0, 20}}, {{"softcap", "2.0"}}},
    {"sinks", 6, 2, 64, 64, {{510, 5}, {0, 20}}, {}, true},
    {"window_softcap_sinks",
     2,
     1,
     128,
     128,
     {{200, 3}, {0, 70}},
     {{"window", "70"}, {"softcap", "3.0"}},
     true},
    {"slopes", 6, 2, 64, 64, {{510, 5}, {0, 70}}, {}, false, true},
    {"rounded_slopes_sinks",
     3,
     1,
     96,
     96,
     {{505, 3}, {0, 40}},
     {{"slope_rounding", "bf16"}, {"window", "480"}},
     true,
     true},
    {"bidirectional_slopes", 2, 2, 64, 48, {{0, 70}}, {{"causal", "0"}}, false, true},
    {"bidirectional", 2, 2, 64, 48, {{0, 70}, {0, 3}}, {{"causal", "0"}}},
};

TEST(CpuAttentionCases, AgreeWithTheReferenceForEveryShapeAndType) {
  const OpSpec& spec = op_spec_of("attention");
  for (const AttentionHeads& shape : kShapes) {
    const OpCase c = attention_case(shape);
    for (const bp_dtype kv : kKvTypes) {
      const CaseRun run{BP_DTYPE_F32, kv};
      const auto expected = run_case(kReference, spec, c, run);
      for (const NamedFactory& backend : cpu_factories()) {
        SCOPED_TRACE(shape.name + " kv " + std::string(dtype_name(kv)) + " on " + backend.name);
        const auto found = run_case(*backend.factory, spec, c, run);
        ASSERT_EQ(found.size(), 1u);
        EXPECT_EQ(compare(expected[0], found[0], spec.bound(BP_DTYPE_F32, kv)), "");
      }
    }
  }
}

}  // namespace
}  // namespace bp::test
