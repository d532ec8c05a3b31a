// Ops against values computed another way.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backplane/reference/backend.hpp"
#include "backplane/reference/dot.hpp"
#include "kernels/kernels.hpp"
#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"
#include "sdk/conformance/support/program_builder.hpp"
#include "sdk/conformance/support/random_values.hpp"

namespace bp::test {
namespace {

using namespace conformance;

using reference::Matrix;
using Floats = std::vector<float>;

TEST(Dot, AgreesWithDoubleToAMillionth) {
  for (const uint64_t n : {1u, 31u, 32u, 33u, 576u, 1024u, 1025u, 4864u, 30000u}) {
    const Floats a = normal_values("a", n), b = normal_values("b", n);
    double exact = 0, magnitude = 0;
    for (uint64_t i = 0; i < n; ++i) {
      exact += static_cast<double>(a[i]) * b[i];
      magnitude += std::abs(static_cast<double>(a[i]) * b[i]);
    }
    EXPECT_NEAR(reference::dot(a.data(), b.data(), n), exact, 1e-6 * magnitude) << n;
    EXPECT_EQ(reference::dot(a.data(), b.data(), n),
              reference::dot_portable(a.data(), b.data(), n));
  }
  EXPECT_EQ(reference::dot(nullptr, nullptr, 0), 0);
}

TEST(Activations, HaveTheirKnownValues) {
  using reference::activate;
  EXPECT_EQ(activate(BP_ACT_NONE, -2.5), -2.5);
  EXPECT_NEAR(activate(BP_ACT_SILU, 1), 0.7310585786300049, 1e-12);
  EXPECT_NEAR(activate(BP_ACT_SILU, -20), -4.122307e-8, 1e-13);
  EXPECT_NEAR(activate(BP_ACT_GELU, 1), 0.8413447460685429, 1e-12);
  EXPECT_NEAR(activate(BP_ACT_GELU_TANH, 1), 0.8411919906082768, 1e-12);
  EXPECT_EQ(activate(BP_ACT_RELU, -1), 0);
  EXPECT_EQ(activate(BP_ACT_RELU, 3), 3);
  EXPECT_EQ(activate(BP_ACT_RELU2, 3), 9);
  EXPECT_EQ(activate(BP_ACT_SIGMOID, 0), 0.5);
  EXPECT_NEAR(activate(BP_ACT_TANH, 0.5), 0.46211715726000975, 1e-12);
  for (uint32_t a = BP_ACT_NONE; a <= BP_ACT_TANH; ++a) {
    EXPECT_TRUE(std::isnan(activate(a, std::nan("")))) << a;
  }
}

TEST(Normalize, RmsAndLayerByHand) {
  Floats x = {3, 4, 1, 1, 1, 5}, y(6);
  reference::normalize({x.data(), 3, 2}, BP_NORM_RMS, 0, 0, {y.data(), 3, 2});
  EXPECT_THAT(y, testing::Pointwise(testing::FloatNear(1e-6f),
                                    Floats{0.8485281f, 1.1313708f, 1, 1, 0.2773501f, 1.3867505f}));
  reference::normalize({x.data(), 3, 2}, BP_NORM_LAYER, 0.5, 0, {y.data(), 3, 2});
  const float third = 2 / std::sqrt(4.5f), first = 0.5f / std::sqrt(0.75f);
  EXPECT_THAT(
      y, testing::Pointwise(testing::FloatNear(1e-6f), Floats{-first, first, 0, 0, -third, third}));
  reference::normalize({x.data(), 1, 6}, BP_NORM_RMS, 0, 2, {y.data(), 1, 6});
  EXPECT_THAT(y, testing::Pointwise(testing::FloatNear(1e-6f),
                                    Floats{0.8485281f, 1.1313708f, 1, 1, 0.2773501f, 1.3867505f}));
}

// (1, 0) at position p becomes (cos, sin) of p * frequency; unrotated columns stay.
TEST(Rotate, IsARotationByPositionTimesFrequency) {
  const Floats inv_freq = {1.0f, 0.25f};
  const int32_t positions[] = {0, 1, 4096};
  for (const uint32_t pairing : {BP_ROPE_HALVES, BP_ROPE_PAIRS}) {
    const bool halves = pairing == BP_ROPE_HALVES;
    Floats x, y(2 * 6 * 3);
    for (int i = 0; i < 6; ++i) {  // heads x tokens
      const Floats head = halves ? Floats{1, 1, 0, 0, 7, 8} : Floats{1, 0, 1, 0, 7, 8};
      x.insert(x.end(), head.begin(), head.end());
    }
    reference::rotate({pairing, 2, 6, 4, 2.0}, {x.data(), 3, 12}, positions, inv_freq.data(),
                      {y.data(), 3, 12});
    for (int i = 0; i < 6; ++i) {
      const double p = positions[i / 2];
      const float c0 = static_cast<float>(2 * std::cos(p)),
                  s0 = static_cast<float>(2 * std::sin(p));
      const float c1 = static_cast<float>(2 * std::cos(p / 4)),
                  s1 = static_cast<float>(2 * std::sin(p / 4));
      const Floats expected = halves ? Floats{c0, c1, s0, s1, 7, 8} : Floats{c0, s0, c1, s1, 7, 8};
      EXPECT_EQ(Floats(y.begin() + i * 6, y.begin() + i * 6 + 6), expected) << pairing << " " << i;
    }
  }
}

struct AttentionCase {
  uint32_t n_heads, n_kv_heads, head_dim, v_head_dim, causal, window;
  float softcap;
  bool sinks;
  int slopes = 0;  // 1: exact, 2: rounded
};

constexpr double kSlopes[] = {0.5, 0.3, 0.1, 0.07, 0.031, 0.9};

// To 8 significant bits, ties to even.
double with_8_bits(double x) {
  if (x == 0) return 0;
  const double unit = std::exp2(std::floor(std::log2(x)) - 7);
  return std::nearbyint(x / unit) * unit;
}

// Softmax over whole rows in double, without pages.
std::vector<double> plain_attention(const AttentionCase& c, uint32_t n, const Floats& q,
                                    const Floats& k, const Floats& v, const Floats& sinks) {
  std::vector<double> out(n * c.n_heads * c.v_head_dim);
  for (uint32_t t = 0; t < n; ++t) {
    for (uint32_t h = 0; h < c.n_heads; ++h) {
      const uint32_t g = h * c.n_kv_heads / c.n_heads;
      std::vector<double> weights(n);
      double total = c.sinks ? std::exp(static_cast<double>(sinks[h])) : 0;
      for (uint32_t p = 0; p < n; ++p) {
        if (c.causal != 0 && p > t) continue;
        if (c.window != 0 && p + c.window <= t) continue;
        double score = 0;
        for (uint32_t d = 0; d < c.head_dim; ++d) {
          score += static_cast<double>(q[(t * c.n_heads + h) * c.head_dim + d]) *
                   k[(p * c.n_kv_heads + g) * c.head_dim + d];
        }
        const double slope = static_cast<float>(kSlopes[h]);
        if (c.slopes == 1) score += slope * (static_cast<double>(p) - t);
        if (c.slopes == 2) score += with_8_bits(with_8_bits(slope) * p);
        score *= 0.3f;
        if (c.softcap != 0) score = c.softcap * std::tanh(score / c.softcap);
        total += weights[p] = std::exp(score);
      }
      for (uint32_t p = 0; p < n; ++p) {
        for (uint32_t d = 0; d < c.v_head_dim; ++d) {
          out[(t * c.n_heads + h) * c.v_head_dim + d] +=
              weights[p] / total * v[(p * c.n_kv_heads + g) * c.v_head_dim + d];
        }
      }
    }
  }
  return out;
}

Floats paged_attention(const AttentionCase& c, uint32_t n, const Floats& q, const Floats& k,
                       const Floats& v, const Floats& sinks) {
  ProgramBuilder builder;
  const uint32_t ids = builder.add_ids();
  builder.add_kv_slot({builder.add_kv_group(c.window), c.n_kv_heads, c.head_dim, c.v_head_dim});
  std::vector<uint32_t> inputs;
  for (const Floats* values : {&q, &k, &v}) {
    const uint64_t width = values->size() / n;
    const uint32_t table = builder.add_weight("rows", BP_DTYPE_F32, {n, width}, *values);
    inputs.push_back(builder.add_value(width));
    builder.add_op(BP_OP_GATHER, {ids}, {inputs.back()}, {table});
  }
  bp_attr_attention a{};
  a.n_heads = c.n_heads, a.n_kv_heads = c.n_kv_heads;
  a.head_dim = c.head_dim, a.v_head_dim = c.v_head_dim;
  a.writes_kv = 1, a.causal = c.causal, a.window = c.window;
  a.scale = 0.3f, a.softcap = c.softcap;
  std::vector<uint32_t> weights;
  if (c.sinks) weights.push_back(builder.add_weight("sinks", BP_DTYPE_F32, {c.n_heads}, sinks));
  if (c.slopes != 0) {
    weights.resize(1, BP_NONE);
    const Floats slopes(kSlopes, kSlopes + c.n_heads);
    weights.push_back(builder.add_weight("slopes", BP_DTYPE_F32, {c.n_heads}, slopes));
    a.slope_rounding = c.slopes == 2 ? BP_SLOPES_BF16 : BP_SLOPES_EXACT;
  }
  const uint32_t o = builder.add_value(c.n_heads * c.v_head_dim);
  builder.add_op(BP_OP_ATTENTION, inputs, {o}, weights, ProgramBuilder::attributes(a));
  builder.add_output(o);

  static constexpr bp_backend_factory kFactory = backend_factory<reference::ReferenceBackend>();
  BackendSession session(kFactory);
  bp_compile_options options = BackendSession::default_options();
  options.block_size = 4;
  session.compile(builder.build(), options, 64);
  BatchBuilder batch;
  std::vector<int32_t> tokens, blocks;
  std::vector<uint32_t> rows;
  for (uint32_t t = 0; t < n; ++t) {
    tokens.push_back(static_cast<int32_t>(t));
    rows.push_back(t);
    if (t % 4 == 0) blocks.push_back(static_cast<int32_t>(40 - t));
  }
  batch.add_sequence(tokens, 0, blocks);
  batch.add_output(0, rows, c.n_heads * c.v_head_dim);
  const Status status = session.run(batch.build());
  EXPECT_TRUE(status.ok()) << status.message();
  return batch.output(0);
}

TEST(Attention, AgreesWithPlainSoftmaxOverWholeRows) {
  const uint32_t n = 19;
  for (const AttentionCase& c :
       {AttentionCase{1, 1, 4, 4, 1, 0, 0, false}, AttentionCase{6, 2, 8, 5, 1, 0, 0, false},
        AttentionCase{4, 4, 8, 8, 0, 0, 0, false}, AttentionCase{4, 1, 8, 8, 1, 5, 0, false},
        AttentionCase{4, 2, 8, 8, 1, 1, 0, false}, AttentionCase{4, 2, 8, 8, 1, 0, 1.5f, false},
        AttentionCase{4, 2, 8, 8, 1, 3, 2.0f, true}, AttentionCase{6, 2, 8, 8, 1, 0, 0, false, 1},
        AttentionCase{4, 1, 8, 8, 0, 0, 1.5f, true, 1},
        AttentionCase{6, 3, 8, 8, 1, 7, 0, false, 2}}) {
    const Floats q = normal_values("q", n * c.n_heads * c.head_dim, 2);
    const Floats k = normal_values("k", n * c.n_kv_heads * c.head_dim, 2);
    const Floats v = normal_values("v", n * c.n_kv_heads * c.v_head_dim);
    const Floats sinks = normal_values("sinks", c.n_heads, 2);
    const auto expected = plain_attention(c, n, q, k, v, sinks);
    const Floats found = paged_attention(c, n, q, k, v, sinks);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-6) << i;
  }
}

}  // namespace
}  // namespace bp::test
