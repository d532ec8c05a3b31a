// Every case of every op spec: a composite must equal its own body in primitives.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "backplane/dtype.hpp"
#include "sdk/conformance/support/ops/op_case.hpp"
#include "sdk/conformance/support/reference_factory.hpp"
#include "tests/support/op_specs.hpp"

namespace bp::test {
namespace {

using namespace conformance;

struct Item {
  OpSpec spec;
  OpCase c;
  CaseRun run;
};

std::vector<Item> all_items() {
  std::vector<Item> items;
  for (const OpSpec& spec : load_op_specs()) {
    for (const OpCase& c : spec.cases) {
      for (const bp_dtype weights : c.dtypes) {
        for (const bp_dtype kv : c.kv_dtypes) {
          items.push_back({spec, c, {weights, kv, CaseForm::kOp}});
        }
      }
    }
  }
  return items;
}

std::string name_of(const Item& item) {
  return item.spec.name + " " + item.c.name + " " + std::string(dtype_name(item.run.weights)) +
         " kv " + std::string(dtype_name(item.run.kv));
}

TEST(OpCases, GiveFiniteRowsThatAreNotAllEqual) {
  const auto items = all_items();
  ASSERT_GT(items.size(), 90u);
  for (const Item& item : items) {
    SCOPED_TRACE(name_of(item));
    const auto outputs = run_case(kReference, item.spec, item.c, item.run);
    ASSERT_EQ(outputs.empty(), item.spec.outputs.empty());
    for (const auto& output : outputs) {
      EXPECT_THAT(output, testing::Each(testing::Truly([](float x) { return std::isfinite(x); })));
      if (output.size() > 1) {
        EXPECT_NE(std::set<float>(output.begin(), output.end()).size(), 1u);
      }
    }
  }
}

TEST(OpCases, CompositesEqualTheirBodies) {
  uint32_t n_compared = 0;
  for (Item& item : all_items()) {
    if (item.spec.body.empty()) continue;
    SCOPED_TRACE(name_of(item));
    const auto composite = run_case(kReference, item.spec, item.c, item.run);
    item.run.form = CaseForm::kBody;
    const auto body = run_case(kReference, item.spec, item.c, item.run);
    ASSERT_EQ(composite.size(), body.size());
    for (size_t o = 0; o < composite.size(); ++o) {
      EXPECT_EQ(compare(composite[o], body[o], {1e-6, 1e-5}), "") << "output " << o;
      ++n_compared;
    }
  }
  EXPECT_GT(n_compared, 60u);
}

// A tighter type gives other values, so that a dtype which is not looked at would be noticed.
TEST(OpCases, WeightAndKvTypesChangeTheResultWithinTheirRounding) {
  for (Item& item : all_items()) {
    if (item.run.weights == BP_DTYPE_F32 && item.run.kv == BP_DTYPE_F32) continue;
    SCOPED_TRACE(name_of(item));
    const auto narrow = run_case(kReference, item.spec, item.c, item.run);
    const auto exact = run_case(kReference, item.spec, item.c, {});
    EXPECT_NE(narrow, exact);
    EXPECT_EQ(compare(exact[0], narrow[0], {0.3, 2.0}), "");
  }
}

}  // namespace
}  // namespace bp::test
