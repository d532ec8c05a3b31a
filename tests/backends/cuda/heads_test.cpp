// Norms of heads, their rotation and the write to the cache in one launch: where it is planned, and
// that no bit differs from the launches of each op.

#include "backends/cuda/kernels/heads.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>

#include "backplane/dtype.hpp"
#include "sdk/conformance/support/kv_transfer_client.hpp"
#include "sdk/conformance/support/program_builder.hpp"
#include "tests/backends/cuda/launched.hpp"
#include "tests/backends/cuda/small_session.hpp"

namespace bp::cuda {
namespace {

using namespace conformance;

enum class Norms { kNone, kBoth, kOfQueries, kLayer };

struct Heads {
  std::string name;
  uint32_t n_heads, n_kv_heads, head_dim, v_head_dim;
  Norms norms = Norms::kNone;
  uint32_t n_dims = 0;  // 0: no rope
  uint32_t pairing = BP_ROPE_HALVES;
  float magnitude = 1;
  bool has_biases = false;
};

const Heads kHeads[] = {
    {"rope", 4, 2, 16, 16, Norms::kNone, 16},
    {"rope of pairs with biases", 3, 1, 24, 24, Norms::kNone, 24, BP_ROPE_PAIRS, 1, true},
    {"a part is turned", 4, 2, 20, 12, Norms::kNone, 12, BP_ROPE_HALVES, 1.25f, true},
    {"norms and rope", 4, 1, 64, 64, Norms::kBoth, 64},
    {"norms and a part in pairs", 2, 2, 72, 40, Norms::kBoth, 32, BP_ROPE_PAIRS, 0.8f, true},
    {"a norm of queries", 2, 1, 40, 40, Norms::kOfQueries, 40},
    {"layer norms of wide heads", 2, 1, 160, 160, Norms::kLayer, 160},
    {"norms alone", 6, 2, 32, 32, Norms::kBoth},
    {"layer norms alone", 2, 1, 144, 20, Norms::kLayer, 0, 0, 1, true},
    {"many heads", 12, 4, 8, 8, Norms::kBoth, 8},
};

// Who reads the keys between the ops beside the next op.
enum class Read { kByNobody, kAfterNorms, kAfterRope, kEverywhere };

constexpr uint32_t kWidth = 32, kVocabulary = 24;

uint32_t add_random(ProgramBuilder& program, const std::string& name, std::vector<uint64_t> dims,
                    float deviation = 0.3f) {
  const uint64_t n = std::accumulate(dims.begin(), dims.end(), uint64_t{1}, std::multiplies<>());
  return program.add_weight(name, BP_DTYPE_F32, dims, normal_values(name, n, deviation));
}

std::vector<uint32_t> qkv_weights(ProgramBuilder& program, const Heads& h) {
  const uint64_t q = h.n_heads * h.head_dim, k = h.n_kv_heads * h.head_dim,
                 v = h.n_kv_heads * h.v_head_dim;
  std::vector<uint32_t> weights(8, BP_NONE);
  weights[0] = add_random(program, "q", {q, kWidth});
  weights[1] = add_random(program, "k", {k, kWidth});
  weights[2] = add_random(program, "v", {v, kWidth});
  if (h.has_biases) {
    weights[3] = add_random(program, "q_bias", {q});
    weights[4] = add_random(program, "k_bias", {k});
    weights[5] = add_random(program, "v_bias", {v});
  }
  if (h.norms != Norms::kNone) weights[6] = add_random(program, "q_norm", {h.head_dim}, 1);
  if (h.norms == Norms::kBoth || h.norms == Norms::kLayer) {
    weights[7] = add_random(program, "k_norm", {h.head_dim}, 1);
  }
  return weights;
}

struct Values {
  uint32_t q, k;
};

Values add_rope(ProgramBuilder& program, const Heads& h, const Values& from) {
  std::vector<float> table(h.n_dims / 2);
  for (size_t i = 0; i < table.size(); ++i) {
    table[i] = std::pow(0.01f, static_cast<float>(i) / static_cast<float>(table.size()));
  }
  const uint32_t inv_freq = program.add_weight("inv_freq", BP_DTYPE_F32, {table.size()}, table);
  const Values turned{program.add_value(h.n_heads * h.head_dim),
                      program.add_value(h.n_kv_heads * h.head_dim)};
  bp_attr_rope a{};
  a.pairing = h.pairing;
  a.n_heads = h.n_heads;
  a.n_kv_heads = h.n_kv_heads;
  a.head_dim = h.head_dim;
  a.n_dims = h.n_dims;
  a.magnitude = h.magnitude;
  program.add_op(BP_OP_ROPE, {from.q, from.k}, {turned.q, turned.k}, {inv_freq},
                 ProgramBuilder::attributes(a));
  return turned;
}

uint32_t add_attention(ProgramBuilder& program, const Heads& h, const Values& qk, uint32_t v) {
  bp_kv_slot slot{};
  slot.group = program.add_kv_group();
  slot.n_kv_heads = h.n_kv_heads;
  slot.k_head_dim = h.head_dim;
  slot.v_head_dim = h.v_head_dim;
  bp_attr_attention a{};
  a.n_heads = h.n_heads;
  a.n_kv_heads = h.n_kv_heads;
  a.head_dim = h.head_dim;
  a.v_head_dim = h.v_head_dim;
  a.kv_slot = program.add_kv_slot(slot);
  a.writes_kv = a.causal = 1;
  a.scale = 0.2f;
  const uint32_t o = program.add_value(h.n_heads * h.v_head_dim);
  program.add_op(BP_OP_ATTENTION, {qk.q, qk.k, v}, {o}, {}, ProgramBuilder::attributes(a));
  return o;
}

ProgramBuilder program_of(const Heads& h, Read read) {
  ProgramBuilder program;
  const uint32_t x =
      program.add_table_rows(kWidth, normal_values("table", kVocabulary * kWidth, 1));
  const Values made{program.add_value(h.n_heads * h.head_dim),
                    program.add_value(h.n_kv_heads * h.head_dim)};
  const uint32_t v = program.add_value(h.n_kv_heads * h.v_head_dim);
  bp_attr_qkv a{};
  a.n_heads = h.n_heads;
  a.n_kv_heads = h.n_kv_heads;
  a.head_dim = h.head_dim;
  a.v_head_dim = h.v_head_dim;
  a.norm_kind = h.norms == Norms::kLayer ? BP_NORM_LAYER : BP_NORM_RMS;
  a.norm_eps = 1e-5f;
  a.norm_weight_offset = h.has_biases ? 1.0f : 0.0f;
  program.add_op(BP_OP_QKV, {x}, {made.q, made.k, v}, qkv_weights(program, h),
                 ProgramBuilder::attributes(a));
  const Values turned = h.n_dims == 0 ? made : add_rope(program, h, made);
  program.add_selected_output(add_attention(program, h, turned, v));
  if (read == Read::kAfterNorms || read == Read::kEverywhere) program.add_selected_output(made.k);
  if (read == Read::kAfterRope || read == Read::kEverywhere) program.add_selected_output(turned.k);
  return program;
}

// ---- launches -----------------------------------------------------------------------------------

// Between the products and attention.
std::string launches(const Heads& h, Read read, bp_dtype k = BP_DTYPE_F16,
                     bp_dtype v = BP_DTYPE_F16) {
  std::string names;
  for (const std::string& name : launched(program_of(h, read).build(), 3, k, v)) {
    for (const char* kind : {"normalise", "rotate", "write_kv", "make_heads"}) {
      if (name.rfind(kind, 0) == 0) names += (names.empty() ? "" : " ") + name;
    }
  }
  return names;
}

TEST(CudaHeads, OneLaunchWhereNobodyReadsBetween) {
  for (const Heads& h : kHeads) EXPECT_EQ(launches(h, Read::kByNobody), "make_heads") << h.name;
  EXPECT_EQ(launches(kHeads[3], Read::kByNobody, BP_DTYPE_F16, BP_DTYPE_Q8_0), "make_heads");
}

TEST(CudaHeads, LaunchesOfTheirOwnForWhatOthersRead) {
  const Heads& rope = kHeads[0];
  const Heads& both = kHeads[3];
  EXPECT_EQ(launches(rope, Read::kAfterRope), "rotate write_kv_F16");
  EXPECT_EQ(launches(both, Read::kEverywhere), "normalise normalise rotate write_kv_F16");
  EXPECT_EQ(launches(both, Read::kEverywhere, BP_DTYPE_F16, BP_DTYPE_Q8_0),
            "normalise normalise rotate write_kv_F16 write_kv_Q8_0");
  EXPECT_EQ(launches(both, Read::kAfterNorms), "normalise normalise make_heads");
  EXPECT_EQ(launches(both, Read::kAfterRope), "normalise normalise rotate write_kv_F16");
}

TEST(CudaHeads, NothingToDoButTheWriteIsTheWrite) {
  const Heads plain{"neither norms nor rope", 4, 2, 16, 16};
  EXPECT_EQ(launches(plain, Read::kByNobody), "write_kv_F16");
}

// ---- bits ---------------------------------------------------------------------------------------

struct Bits {
  std::vector<std::vector<float>> outputs;  // of each step
  std::vector<uint8_t> cache;
};

std::vector<int32_t> some_tokens(uint32_t n, uint32_t first) {
  std::vector<int32_t> tokens(n);
  for (uint32_t i = 0; i < n; ++i) {
    tokens[i] = static_cast<int32_t>((first + 7 * i) % kVocabulary);
  }
  return tokens;
}

void run(BackendSession& session, BatchBuilder& batch, const Heads& h, Bits& bits) {
  std::vector<uint32_t> rows(batch.n_tokens());
  std::iota(rows.begin(), rows.end(), 0);
  batch.add_output(0, rows, uint64_t{h.n_heads} * h.v_head_dim);
  const Status status = session.run(batch.build());
  ASSERT_TRUE(status.ok()) << status.message();
  bits.outputs.push_back(batch.output(0));
}

// Two prompts, a third one beside tokens of the first two, and a token of each: padded to four.
Bits bits_of(const Heads& h, Read read, bp_dtype k, bp_dtype v,
             const std::string& order = "forward") {
  ProgramBuilder program = program_of(h, read);
  bp_param param{};
  param.key = to_bp_str("order");
  param.type = BP_TYPE_STRING;
  param.s = to_bp_str(order);
  auto params = make_growable<bp_params>();
  params.n_params = 1;
  params.params = &param;
  BackendSession session(kFactory, nullptr, &params);
  bp_compile_options options = small_options(160);
  options.max_step_tokens = 160;
  options.max_context = 256;
  options.k_dtype = k;
  options.v_dtype = v;
  const Status status = session.try_compile(program.build(), options);
  if (!status.ok()) throw Failure(status.message());
  const KvTransferClient transfer(session);
  session.allocate(1, kBlocks);
  Bits bits;
  BatchBuilder prompts, mixed, decodes;
  prompts.add_sequence(some_tokens(19, 1), 0, {3, 1});
  prompts.add_sequence(some_tokens(4, 2), 0, {2});
  run(session, prompts, h, bits);
  mixed.add_sequence(some_tokens(1, 3), 19, {3, 1});
  mixed.add_sequence(some_tokens(2, 4), 4, {2});
  mixed.add_sequence(some_tokens(5, 5), 0, {4});
  run(session, mixed, h, bits);
  decodes.add_sequence(some_tokens(1, 6), 20, {3, 1});
  decodes.add_sequence(some_tokens(1, 7), 6, {2});
  decodes.add_sequence(some_tokens(1, 8), 5, {4});
  run(session, decodes, h, bits);
  if (h.name == "many heads") {
    BatchBuilder long_prompt;
    long_prompt.add_sequence(some_tokens(130, 9), 0, {5, 6, 7, 8, 9, 10, 11, 12, 13});
    run(session, long_prompt, h, bits);
  }
  bits.cache = transfer.export_blocks(0, {1, 2, 3, 4, 5, 6, 13});
  return bits;
}

void expect_equal(const Heads& h, Read read, bp_dtype k, bp_dtype v) {
  SCOPED_TRACE(h.name + ", " + std::string(dtype_name(k)) + " and " + std::string(dtype_name(v)));
  const Bits together = bits_of(h, Read::kByNobody, k, v), apart = bits_of(h, read, k, v);
  EXPECT_EQ(together.outputs, apart.outputs);
  EXPECT_EQ(together.cache, apart.cache);
}

TEST(CudaHeads, NoBitDiffersInAnyTypeOfTheCache) {
  for (const Heads& h : kHeads) {
    for (const bp_dtype t :
         {BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F8_E4M3, BP_DTYPE_Q8_0}) {
      expect_equal(h, Read::kEverywhere, t, t);
    }
  }
}

TEST(CudaHeads, NoBitDiffersInCachesOfTwoTypes) {
  for (const auto& [k, v] : {std::pair{BP_DTYPE_F16, BP_DTYPE_Q8_0},
                             {BP_DTYPE_Q8_0, BP_DTYPE_F8_E4M3},
                             {BP_DTYPE_F32, BP_DTYPE_BF16}}) {
    expect_equal(kHeads[2], Read::kEverywhere, k, v);
    expect_equal(kHeads[4], Read::kEverywhere, k, v);
  }
}

TEST(CudaHeads, NoBitDiffersWhereTheNormsAreApart) {
  expect_equal(kHeads[3], Read::kAfterNorms, BP_DTYPE_F16, BP_DTYPE_F16);
}

TEST(CudaHeads, AnyOrderOfThreadsGivesTheSame) {
  for (const Heads& h : kHeads) {
    const Bits forward = bits_of(h, Read::kByNobody, BP_DTYPE_F16, BP_DTYPE_Q8_0);
    for (const char* order : {"reversed", "shuffled"}) {
      const Bits other = bits_of(h, Read::kByNobody, BP_DTYPE_F16, BP_DTYPE_Q8_0, order);
      EXPECT_EQ(forward.outputs, other.outputs) << h.name << " " << order;
      EXPECT_EQ(forward.cache, other.cache) << h.name << " " << order;
    }
  }
}

TEST(CudaHeads, SharedMemoryFitsEveryDevice) {
  HeadsParams p;
  p.n_heads = 64;
  p.to_k.n_heads = 8;
  p.to_k.head_dim = p.rotation.n_dims = kMaxHeadsDim;
  for (const uint32_t n_rows : {1u, 127u, 128u, 16384u}) {
    p.n_rows = n_rows;
    const Geometry g = heads_geometry(p);
    EXPECT_LE(g.shared_bytes, 48u << 10);
    EXPECT_EQ(g.grid[0], n_rows);
    EXPECT_GE(g.grid[1], 1u);
  }
}

}  // namespace
}  // namespace bp::cuda
