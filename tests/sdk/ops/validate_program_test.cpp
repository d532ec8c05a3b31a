// Each obstacle names its op and what is wrong with it.

#include "backplane/validate_program.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sdk/conformance/support/tiny_llama.hpp"

namespace bp::test {
namespace {

using namespace conformance;

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using Obstacles = std::vector<std::pair<uint32_t, std::string>>;

Obstacles obstacles(const bp_program& program) {
  Obstacles found;
  auto c_report = make_growable<bp_check_report>();
  c_report.user = &found;
  c_report.obstacle = [](void* user, uint32_t op, bp_str sentence) {
    static_cast<Obstacles*>(user)->emplace_back(op, std::string(view(sentence)));
  };
  CheckReport report(&c_report);
  const bool valid = validate_program(ProgramView(program), report);
  EXPECT_EQ(valid, found.empty());
  return found;
}

TEST(ValidateProgram, AcceptsAWholeModel) {
  TinyLlama model;
  EXPECT_THAT(obstacles(model.program()), IsEmpty());
}

// One op over an input of width 8; each test adds what it is about.
class OneOp : public testing::Test {
 protected:
  OneOp() : ids_(builder_.add_ids()), x_(builder_.add_value(8)) {
    const uint32_t table = weight("table", {4, 8});
    builder_.add_op(BP_OP_GATHER, {ids_}, {x_}, {table});
  }

  uint32_t weight(const std::string& name, std::vector<uint64_t> dims) {
    uint64_t n = 1;
    for (const uint64_t d : dims) n *= d;
    return builder_.add_weight(name, BP_DTYPE_F32, dims, std::vector<float>(n, 1.0f));
  }
  template <class A>
  static AttributeBuffer attributes(A a) {
    return ProgramBuilder::attributes(a);
  }
  // The obstacles of op 1.
  void expect_obstacle(const std::string& sentence) {
    EXPECT_THAT(obstacles(builder_.build()), Contains(Pair(1u, HasSubstr(sentence))));
  }

  ProgramBuilder builder_;
  uint32_t ids_, x_;
};

TEST_F(OneOp, WeightOfAnotherShape) {
  builder_.add_op(BP_OP_LINEAR, {x_}, {builder_.add_value(5)}, {weight("blk.0.w", {5, 9})});
  EXPECT_THAT(obstacles(builder_.build()),
              testing::ElementsAre(
                  Pair(1u,
                       "op \"op.1\" (linear): weight w \"blk.0.w\" has shape [5, 9], expected "
                       "[n_out, n_in] = [5, 8]")));
}

TEST_F(OneOp, AlternativesOfAShape) {
  bp_attr_norm norm{};
  norm.eps = 1e-5f;
  norm.group = 4;
  builder_.add_op(BP_OP_NORM, {x_}, {builder_.add_value(8)}, {weight("whole", {8})},
                  attributes(norm));
  builder_.add_op(BP_OP_NORM, {x_}, {builder_.add_value(8)}, {weight("group", {4})},
                  attributes(norm));
  EXPECT_THAT(obstacles(builder_.build()), IsEmpty());
  builder_.add_op(BP_OP_NORM, {x_}, {builder_.add_value(8)}, {weight("other", {2})},
                  attributes(norm));
  EXPECT_THAT(obstacles(builder_.build()),
              Contains(Pair(3u, HasSubstr("has shape [2], expected [dim | group] = [8 or 4]"))));
}

TEST_F(OneOp, ShapesThatDependOnAnotherSlot) {
  const uint32_t down = weight("down", {8, 6});
  builder_.add_op(BP_OP_GATED_MLP, {x_}, {builder_.add_value(8)},
                  {weight("gate_up", {12, 8}), BP_NONE, down}, attributes(bp_attr_gated_mlp{}));
  EXPECT_THAT(obstacles(builder_.build()), IsEmpty());
  builder_.add_op(BP_OP_GATED_MLP, {x_}, {builder_.add_value(8)},
                  {weight("gate", {6, 8}), BP_NONE, down}, attributes(bp_attr_gated_mlp{}));
  EXPECT_THAT(
      obstacles(builder_.build()),
      Contains(Pair(2u, AllOf(HasSubstr("\"gate\" has shape [6, 8]"), HasSubstr("[12, 8]")))));
}

TEST_F(OneOp, MoreGroupsThanBlockSizesHaveRoomFor) {
  for (uint32_t i = 0; i < 8; ++i) builder_.add_kv_slot({builder_.add_kv_group(100 + i), 2, 4, 4});
  EXPECT_THAT(obstacles(builder_.build()), IsEmpty());
  builder_.add_kv_slot({builder_.add_kv_group(200), 2, 4, 4});
  EXPECT_THAT(obstacles(builder_.build()),
              Contains(Pair(BP_NONE,
                            "the program has 9 KV groups, which are 9 groups; at most 8 "
                            "are possible")));
}

TEST_F(OneOp, TheGroupOfStatesCounts) {
  bp_attr_short_conv a{};
  a.kernel = 3;
  a.state_slot = builder_.add_state_slot(16);
  builder_.add_op(BP_OP_SHORT_CONV, {x_}, {builder_.add_value(8)}, {weight("w", {8, 3})},
                  attributes(a));
  for (uint32_t i = 0; i < 7; ++i) builder_.add_kv_slot({builder_.add_kv_group(100 + i), 2, 4, 4});
  EXPECT_THAT(obstacles(builder_.build()), IsEmpty());
  builder_.add_kv_slot({builder_.add_kv_group(200), 2, 4, 4});
  EXPECT_THAT(obstacles(builder_.build()),
              Contains(Pair(BP_NONE, HasSubstr("8 KV groups and state slots, which are 9"))));
}

TEST_F(OneOp, OutputOfAnotherWidth) {
  builder_.add_op(BP_OP_MATMUL, {x_}, {builder_.add_value(6)}, {weight("w", {5, 8})});
  expect_obstacle("value y has width 6, expected n_out = 5");
}

TEST_F(OneOp, UnknownKindVersionAndBits) {
  const uint32_t op = builder_.add_op("com.example.warp/1", {x_}, {builder_.add_value(8)});
  expect_obstacle("op \"op.1\" (com.example.warp/1): unknown kind of op");
  builder_.op(op).version = 9;
  const uint32_t scale =
      builder_.add_op(BP_OP_SCALE, {x_}, {builder_.add_value(8)}, {}, attributes(bp_attr_scale{}));
  builder_.op(scale).version = 9;
  EXPECT_THAT(obstacles(builder_.build()),
              Contains(Pair(scale, HasSubstr("version 9 is unknown, the highest known is 1"))));
  builder_.op(scale).version = 1;
  builder_.op(scale).required = 4;
  EXPECT_THAT(obstacles(builder_.build()), Contains(Pair(scale, HasSubstr("requires a feature"))));
}

TEST_F(OneOp, AttributeBitsAndValues) {
  bp_attr_linear a{};
  a.required = 2;
  builder_.add_op(BP_OP_LINEAR, {x_}, {builder_.add_value(5)}, {weight("w", {5, 8})},
                  attributes(a));
  expect_obstacle("attributes require a feature unknown");
  bp_attr_linear b{};
  b.activation = 99;
  builder_.add_op(BP_OP_LINEAR, {x_}, {builder_.add_value(5)}, {weight("w", {5, 8})},
                  attributes(b));
  EXPECT_THAT(obstacles(builder_.build()),
              Contains(Pair(2u, HasSubstr("attribute activation has the unknown value 99"))));
  builder_.add_op(BP_OP_SOFTCAP, {x_}, {builder_.add_value(8)});
  EXPECT_THAT(obstacles(builder_.build()),
              Contains(Pair(3u, HasSubstr("attribute cap is missing"))));
}

TEST_F(OneOp, MissingAndSurplusSlots) {
  builder_.add_op(BP_OP_MATMUL, {x_}, {builder_.add_value(5)}, {BP_NONE});
  expect_obstacle("weight w is missing");
  builder_.add_op(BP_OP_MATMUL, {x_, x_}, {builder_.add_value(5)}, {weight("w", {5, 8})});
  EXPECT_THAT(obstacles(builder_.build()),
              Contains(Pair(2u, HasSubstr("has 2 inputs, expected at most 1"))));
  builder_.add_op(BP_OP_ADD, {x_}, {builder_.add_value(8)});
  EXPECT_THAT(obstacles(builder_.build()),
              Contains(Pair(3u, HasSubstr("either input b or weight w"))));
  builder_.add_op(BP_OP_ADD, {x_, 999}, {builder_.add_value(8)});
  EXPECT_THAT(obstacles(builder_.build()),
              Contains(Pair(4u, HasSubstr("input b is out of range"))));
}

TEST_F(OneOp, OrderOfReadsAndWrites) {
  const uint32_t never = builder_.add_value(8), y = builder_.add_value(8);
  builder_.add_op(BP_OP_ADD, {x_, never}, {y});
  expect_obstacle("reads value 2 before it is written");
  builder_.add_op(BP_OP_ADD, {x_, x_}, {y});
  EXPECT_THAT(obstacles(builder_.build()), Contains(Pair(2u, HasSubstr("is written already"))));
  builder_.add_output(builder_.add_value(8));
  EXPECT_THAT(obstacles(builder_.build()),
              Contains(Pair(BP_NONE, HasSubstr("is written by no op"))));
}

TEST_F(OneOp, RowsOfTokensAndOfOutputs) {
  const uint32_t few = builder_.add_value(8, BP_ROWS_OUTPUT, 0);
  builder_.add_op(BP_OP_SELECT_ROWS, {x_}, {few});
  builder_.add_output(few);
  EXPECT_THAT(obstacles(builder_.build()), IsEmpty());
  builder_.add_op(BP_OP_ADD, {x_, few}, {builder_.add_value(8)});
  EXPECT_THAT(obstacles(builder_.build()), Contains(Pair(2u, HasSubstr("value b has other rows"))));
}

TEST_F(OneOp, WeightsBeyondTheirBytes) {
  const uint32_t w = weight("short", {5, 8});
  builder_.add_op(BP_OP_MATMUL, {x_}, {builder_.add_value(5)}, {w});
  builder_.weight_part(w).n_bytes -= 1;
  expect_obstacle("weight \"short\" is not usable");
  EXPECT_THAT(
      obstacles(builder_.build()),
      Contains(
          Pair(BP_NONE,
               HasSubstr("weight \"short\" of shape [5, 8] does not lie within its 159 bytes"))));
  builder_.weight_part(w).dims[0] = uint64_t{1} << 63;
  builder_.weight_part(w).n_bytes += 1;
  EXPECT_THAT(obstacles(builder_.build()),
              Contains(Pair(BP_NONE, HasSubstr("does not lie within"))));
  builder_.weight_part(w).dtype = 12345;
  EXPECT_THAT(obstacles(builder_.build()),
              Contains(Pair(BP_NONE, HasSubstr("element type 12345"))));
}

TEST_F(OneOp, StateSlotsThatDoNotFit) {
  bp_attr_short_conv a{};
  a.kernel = 3;
  const uint32_t w = weight("w", {8, 3});
  const auto add = [&] {
    builder_.add_op(BP_OP_SHORT_CONV, {x_}, {builder_.add_value(8)}, {w, BP_NONE}, attributes(a));
  };
  add();
  expect_obstacle("state_slot is out of range");
  const uint32_t slot = builder_.add_state_slot(16);
  EXPECT_THAT(obstacles(builder_.build()), IsEmpty());
  add();
  EXPECT_THAT(obstacles(builder_.build()),
              Contains(Pair(2u, HasSubstr("state slot 0 is that of op \"op.1\""))));
  a.state_slot = builder_.add_state_slot(15);
  EXPECT_NE(a.state_slot, slot);
  add();
  EXPECT_THAT(obstacles(builder_.build()),
              Contains(Pair(3u, HasSubstr("state slot 1 holds 15 floats, the op keeps 16"))));
}

TEST_F(OneOp, AttentionThatDisagreesWithItsSlot) {
  builder_.add_kv_slot({builder_.add_kv_group(), 2, 4, 4});
  bp_attr_attention a{};
  a.n_heads = 2, a.n_kv_heads = 1, a.head_dim = a.v_head_dim = 4;
  a.scale = 1;
  builder_.add_op(BP_OP_ATTEND, {x_}, {builder_.add_value(8)}, {}, attributes(a));
  expect_obstacle("KV slot 0 keeps other heads");
  a.kv_slot = 1;
  builder_.add_op(BP_OP_ATTEND, {x_}, {builder_.add_value(8)}, {}, attributes(a));
  EXPECT_THAT(obstacles(builder_.build()),
              Contains(Pair(2u, HasSubstr("kv_slot is out of range"))));
  a.kv_slot = 0, a.n_kv_heads = 2, a.writes_kv = 1;
  builder_.add_op(BP_OP_ATTENTION, {x_}, {builder_.add_value(8)}, {}, attributes(a));
  EXPECT_THAT(obstacles(builder_.build()),
              Contains(Pair(3u, HasSubstr("k and v must be there exactly when"))));
}

}  // namespace
}  // namespace bp::test
