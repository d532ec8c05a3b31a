#include "core/model/program.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "core/model/inline_body.hpp"
#include "tests/core/model/support/backend_runner.hpp"

namespace bp::model::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Weight weight(const std::string& name, std::vector<uint64_t> dims) {
  static const std::vector<float> values(256);
  bp_weight_part part{};
  part.dtype = BP_DTYPE_F32;
  part.n_dims = static_cast<uint32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), part.dims);
  part.file = BP_NONE;
  part.row_stride_bytes = dims.back() * sizeof(float);
  part.n_bytes = values.size() * sizeof(float);
  part.data = values.data();
  return {name, {part}};
}

Op make_op(std::string_view kind, std::vector<uint32_t> inputs, std::vector<uint32_t> weights,
           std::vector<uint32_t> outputs = {0}) {
  Op op;
  op.schema = find_op_schema(kind);
  op.name = "test." + std::string(kind);
  op.inputs = std::move(inputs);
  op.weights = std::move(weights);
  op.outputs = std::move(outputs);
  op.attributes = default_attributes(*op.schema);
  return op;
}

uint32_t append(ProgramParts& parts, Op op) {
  const auto appended = append_op(parts, std::move(op));
  EXPECT_TRUE(appended.ok()) << appended.status().message();
  return (*appended)->outputs[0];
}

// ids -> embed -> norm -> select -> lm_head, of width 8 and 10 tokens.
ProgramParts small_program() {
  ProgramParts parts;
  parts.inputs = {parts.add_value({BP_ROWS_TOKENS, 0, BP_DTYPE_I32, 0, 1})};
  const uint32_t table = parts.add_weight(weight("table", {10, 8}));
  const uint32_t scale = parts.add_weight(weight("scale", {8}));
  const uint32_t x = append(parts, make_op(BP_OP_EMBED, {0}, {table}));
  const uint32_t h = append(parts, make_op(BP_OP_NORM, {x}, {scale}));
  const uint32_t row = append(parts, make_op(BP_OP_SELECT_ROWS, {h}, {}));
  parts.outputs = {append(parts, make_op(BP_OP_LM_HEAD, {row}, {table}))};
  return parts;
}

std::vector<std::string> kinds_of(const Program& program) {
  std::vector<std::string> kinds;
  for (const Op& op : program.parts().ops) kinds.emplace_back(op.schema->kind);
  return kinds;
}

TEST(ProgramTest, WidthsAndRowsFollowFromTheSchema) {
  const auto program = Program::create(small_program());
  ASSERT_TRUE(program.ok()) << program.status().message();
  const bp_program& c = program->c();
  EXPECT_EQ(c.values[1].width, 8u);
  EXPECT_EQ(c.values[1].rows, BP_ROWS_TOKENS);
  const bp_value& logits = c.values[c.outputs[0]];
  EXPECT_EQ(logits.width, 10u);
  EXPECT_EQ(logits.rows, BP_ROWS_OUTPUT);
  EXPECT_STREQ(c.ops[1]->kind, BP_OP_NORM);
  EXPECT_EQ(c.ops[1]->outputs[1], BP_NONE);
}

// Backends that know the first version know its weights too.
TEST(ProgramTest, OpsCarryTheLowestVersionThatSaysWhatTheyDo) {
  for (const uint32_t version : {1u, 2u}) {
    ProgramParts parts = small_program();
    parts.kv_slots = {{0, 2, 4, 4}};
    parts.kv_groups = {{0, 0}};
    Op op = make_op(BP_OP_ATTEND, {1}, {});
    using Named = std::pair<const char*, double>;
    for (const auto& [name, value] :
         {Named{"n_heads", 2}, Named{"n_kv_heads", 2}, Named{"head_dim", 4}, Named{"v_head_dim", 4},
          Named{"scale", 1}}) {
      const AttributeSchema& field = *find_attribute(*op.schema, name);
      ASSERT_TRUE(set_attribute(field, op.attributes.data(), value).ok());
    }
    if (version == 2) op.weights = {BP_NONE, parts.add_weight(weight("slopes", {2}))};
    append(parts, std::move(op));
    const auto program = Program::create(std::move(parts));
    ASSERT_TRUE(program.ok()) << program.status().message();
    const bp_op& attend = *program->c().ops[4];
    EXPECT_EQ(attend.version, version);
    EXPECT_EQ(attend.n_weights, version);
  }
}

TEST(ProgramTest, CFormStaysInPlace) {
  auto program = Program::create(small_program());
  ASSERT_TRUE(program.ok());
  const bp_program* before = &program->c();
  const Program moved = *std::move(program);
  EXPECT_EQ(&moved.c(), before);
  EXPECT_STREQ(moved.c().weights[0]->name, "table");
}

TEST(ProgramTest, OpsThatDoNotFit) {
  const auto message = [](Op op) {
    ProgramParts parts = small_program();
    parts.add_weight(weight("odd", {3, 5}));
    const auto appended = append_op(parts, std::move(op));
    return appended.ok() ? std::string() : appended.status().message();
  };
  EXPECT_EQ(message(make_op(BP_OP_LINEAR, {1}, {})), "weight w is missing");
  EXPECT_EQ(message(make_op(BP_OP_LINEAR, {BP_NONE}, {0})), "input x is missing");
  EXPECT_EQ(message(make_op(BP_OP_NORM, {1}, {1}, {BP_NONE, 0})), "output y is missing");
  EXPECT_EQ(message(make_op(BP_OP_LINEAR, {1}, {2})),
            "weight w 'odd' has shape [3, 5], expected [n_out, n_in] = [3, 8]");
}

TEST(ProgramTest, ListsAllThatIsWrong) {
  ProgramParts parts = small_program();
  parts.ops[1].inputs[0] = 99;
  parts.outputs = {77};
  const auto program = Program::create(std::move(parts));
  ASSERT_FALSE(program.ok());
  EXPECT_THAT(program.status().message(), HasSubstr("out of range"));
}

// As of an architecture whose layers have a window each.
TEST(ProgramTest, MoreKvGroupsThanBackendsAnswerFor) {
  ProgramParts parts = small_program();
  for (uint32_t i = 0; i < 9; ++i) {
    parts.kv_groups.push_back({100 + i, 0});
    parts.kv_slots.push_back({i, 1, 8, 8});
  }
  const auto program = Program::create(std::move(parts));
  ASSERT_FALSE(program.ok());
  EXPECT_THAT(program.status().message(), HasSubstr("9 KV groups"));
}

class FitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto bodies = OpBodies::load(source_folders().ops);
    ASSERT_TRUE(bodies.ok()) << bodies.status().message();
    bodies_ = std::make_unique<OpBodies>(*std::move(bodies));
  }
  // Fits small_program to a backend that lacks these kinds.
  Result<Program> fit(const std::vector<std::string>& missing) const {
    return fit_to_backend(*Program::create(small_program()), *bodies_,
                          [&](const bp_program& program) -> Result<std::vector<plugin::Obstacle>> {
                            std::vector<plugin::Obstacle> obstacles;
                            for (uint32_t i = 0; i < program.n_ops; ++i) {
                              for (const std::string& kind : missing) {
                                if (program.ops[i]->kind != kind) continue;
                                obstacles.push_back({i, "no " + kind + " here"});
                              }
                            }
                            return obstacles;
                          });
  }
  std::unique_ptr<OpBodies> bodies_;
};

TEST_F(FitTest, KeepsWhatTheBackendKnows) {
  const auto program = fit({});
  ASSERT_TRUE(program.ok());
  EXPECT_THAT(kinds_of(*program), ElementsAre("embed", "norm", "select_rows", "lm_head"));
}

TEST_F(FitTest, ReplacesWhatItLacks) {
  const auto program = fit({"norm", "lm_head"});
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_THAT(kinds_of(*program),
              ElementsAre("embed", "scale", "normalize", "multiply", "select_rows", "matmul"));
  EXPECT_EQ(program->parts().ops[2].name, "test.norm.2");
  EXPECT_EQ(program->c().values[program->c().outputs[0]].width, 10u);
}

TEST_F(FitTest, SaysWhatNoBodyReplaces) {
  const auto program = fit({"norm", "normalize", "matmul", "lm_head", "multiply"});
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.status().code(), Code::kUnsupported);
  EXPECT_EQ(program.status().message(),
            "the backend cannot run this model: op test.norm.2 (normalize): no normalize here; "
            "op test.norm.3 (multiply): no multiply here; op test.lm_head.0 (matmul): no matmul "
            "here");
}

TEST_F(FitTest, PassesTheBackendsOwnFailureOn) {
  const auto program =
      fit_to_backend(*Program::create(small_program()), *bodies_,
                     [](const bp_program&) -> Result<std::vector<plugin::Obstacle>> {
                       return internal_error("the backend broke");
                     });
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.status().message(), "the backend broke");
  const auto whole =
      fit_to_backend(*Program::create(small_program()), *bodies_,
                     [](const bp_program&) -> Result<std::vector<plugin::Obstacle>> {
                       return std::vector<plugin::Obstacle>{{BP_NONE, "too many ops"}};
                     });
  ASSERT_FALSE(whole.ok());
  EXPECT_THAT(whole.status().message(), HasSubstr("this model: too many ops"));
}

}  // namespace
}  // namespace bp::model::test
