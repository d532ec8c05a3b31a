// The emulator itself: what threads of a block do together, and that it sees what they do wrong.

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "backends/cuda/emulator/emulated_device.hpp"
#include "backends/cuda/kernels/ptx.cuh"

namespace bp::cuda {
namespace {

using emulator::EmulatedDevice;
using emulator::Order;

class Emulator : public testing::TestWithParam<Order> {
 protected:
  template <class P>
  Status run(void (*function)(P), const Geometry& geometry, const P& params) {
    EXPECT_TRUE(stream_->launch(Kernel<P>{"tested", function}, geometry, params).ok());
    return stream_->synchronize();
  }

  EmulatedDevice device_{{GetParam(), 1 << 20}};
  std::unique_ptr<Stream> stream_ = std::move(device_.make_stream()).value();
};

INSTANTIATE_TEST_SUITE_P(Orders, Emulator,
                         testing::Values(Order::kForward, Order::kReversed, Order::kShuffled));

struct Ints {
  int* out;
  int n;
};

void reverse_in_shared(Ints p) {
  begin_in_order();
  BP_DYNAMIC_SHARED(bytes);
  int* shared = reinterpret_cast<int*>(bytes);
  const uint32_t n = blockDim.x, at = blockIdx.x * n + threadIdx.x;
  shared[threadIdx.x] = p.out[at];
  __syncthreads();
  p.out[at] = shared[n - 1 - threadIdx.x];
}

TEST_P(Emulator, ThreadsMeetAtBarriers) {
  std::vector<int> values(3 * 70);
  std::iota(values.begin(), values.end(), 0);
  ASSERT_TRUE(run(reverse_in_shared, {{3, 1, 1}, 70, 70 * sizeof(int)}, {values.data(), 0}).ok());
  for (int block = 0; block < 3; ++block) {
    for (int i = 0; i < 70; ++i) EXPECT_EQ(values[block * 70 + i], block * 70 + 69 - i);
  }
}

void shuffle_all(Ints p) {
  begin_in_order();
  const int lane = static_cast<int>(lane_index());
  int* out = p.out + threadIdx.x * 5;
  out[0] = __shfl_sync(kAllLanes, 10 * lane, 7);
  out[1] = __shfl_xor_sync(kAllLanes, 10 * lane, 5);
  out[2] = __shfl_down_sync(kAllLanes, 10 * lane, 3);
  out[3] = __shfl_up_sync(kAllLanes, 10 * lane, 2, 8);
  out[4] = static_cast<int>(__ballot_sync(kAllLanes, lane % 3 == 0));
}

TEST_P(Emulator, LanesExchangeValues) {
  std::vector<int> out(64 * 5);
  ASSERT_TRUE(run(shuffle_all, {{1, 1, 1}, 64, 0}, {out.data(), 0}).ok());
  for (int t = 0; t < 64; ++t) {
    const int lane = t % 32, *found = &out[static_cast<size_t>(t) * 5];
    EXPECT_EQ(found[0], 70);
    EXPECT_EQ(found[1], 10 * (lane ^ 5));
    EXPECT_EQ(found[2], 10 * (lane + 3 < 32 ? lane + 3 : lane));
    EXPECT_EQ(found[3], 10 * (lane % 8 >= 2 ? lane - 2 : lane));
    EXPECT_EQ(found[4], 0x49249249);
  }
}

// Two halves of a warp go different ways, each with its own mask.
void shuffle_in_halves(Ints p) {
  begin_in_order();
  const uint32_t lane = lane_index();
  int value = static_cast<int>(lane);
  if (lane < 16) {
    value = __shfl_xor_sync(0xffffu, value, 1);
    value = __shfl_xor_sync(0xffffu, value, 2);
  } else {
    value = __shfl_xor_sync(0xffff0000u, value, 4);
  }
  p.out[lane] = value;
}

TEST_P(Emulator, DivergentHalvesExchangeApart) {
  std::vector<int> out(32);
  ASSERT_TRUE(run(shuffle_in_halves, {{1, 1, 1}, 32, 0}, {out.data(), 0}).ok());
  for (int lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(out[static_cast<size_t>(lane)], lane < 16 ? lane ^ 3 : lane ^ 4);
  }
}

void count(Ints p) {
  begin_in_order();
  atomicAdd(p.out, 1);
  atomicMax(p.out + 1, static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x));
}

TEST_P(Emulator, AtomicsAddUp) {
  std::vector<int> out(2);
  ASSERT_TRUE(run(count, {{4, 5, 2}, 100, 0}, {out.data(), 0}).ok());
  EXPECT_EQ(out[0], 4 * 5 * 2 * 100);
  EXPECT_EQ(out[1], 399);
}

void sum_of_block(Ints p) {
  begin_in_order();
  __shared__ float scratch[8];
  const float first = block_sum(static_cast<float>(threadIdx.x), scratch);
  const float second = block_sum(1.0f, scratch);
  p.out[threadIdx.x] = static_cast<int>(first) * 1000 + static_cast<int>(second);
}

TEST_P(Emulator, BlocksSum) {
  std::vector<int> out(128);
  ASSERT_TRUE(run(sum_of_block, {{1, 1, 1}, 128, 0}, {out.data(), 0}).ok());
  for (const int x : out) EXPECT_EQ(x, 128 * 127 / 2 * 1000 + 128);
}

void miss_a_barrier(Ints) {
  begin_in_order();
  if (threadIdx.x != 3) __syncwarp();
}

TEST_P(Emulator, SaysWhichThreadIsWaitedFor) {
  const Status status = run(miss_a_barrier, {{1, 1, 1}, 32, 0}, Ints{});
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_NE(status.message().find("waits at __syncwarp for threads that do not come"),
            std::string::npos)
      << status.message();
}

void go_ahead(Ints) {
  if (threadIdx.x != 3) begin_in_order();
}

TEST_P(Emulator, SaysWhichThreadGoesAheadOfLaunchesBefore) {
  const Status status = run(go_ahead, {{1, 1, 1}, 32, 0}, Ints{});
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_NE(status.message().find("thread 3 has not waited for launches before"), std::string::npos)
      << status.message();
}

// ---- matrix products ----------------------------------------------------------------------------

// One warp: c = a b + c of matrices in memory, the way the PTX ISA lays registers out.
template <class Element, class Sum>
struct Product {
  const Element* a;  // [16][kDepth]
  const Element* b;  // [kDepth][8]
  Sum* c;            // [16][8]
  void (*mma)(Sum (&)[4], const uint32_t (&)[4], const uint32_t (&)[2]);
};

template <class Element, class Sum>
void multiply(Product<Element, Sum> p) {
  begin_in_order();
  constexpr uint32_t kPerWord = 4 / sizeof(Element), kDepth = 8 * kPerWord;
  const uint32_t group = lane_index() / 4, member = lane_index() % 4;
  uint32_t a[4], b[2];
  Sum c[4];
  for (uint32_t w = 0; w < 4; ++w) {
    const uint32_t row = group + (w & 1) * 8, k = (w / 2) * kDepth / 2 + member * kPerWord;
    std::memcpy(&a[w], p.a + row * kDepth + k, 4);
  }
  for (uint32_t w = 0; w < 2; ++w) {
    Element pair[kPerWord];
    for (uint32_t i = 0; i < kPerWord; ++i) {
      pair[i] = p.b[(w * kDepth / 2 + member * kPerWord + i) * 8 + group];
    }
    std::memcpy(&b[w], pair, 4);
  }
  for (uint32_t i = 0; i < 4; ++i) c[i] = p.c[(group + i / 2 * 8) * 8 + member * 2 + i % 2];
  p.mma(c, a, b);
  for (uint32_t i = 0; i < 4; ++i) p.c[(group + i / 2 * 8) * 8 + member * 2 + i % 2] = c[i];
}

// Small whole numbers: every type holds them, and sums are exact.
int number(uint32_t i) {
  return static_cast<int>(i * 7919 % 17) - 8;
}

template <class Element, class Sum>
void check_product(Emulator&, Stream& stream, Element (*narrow)(float),
                   void (*mma)(Sum (&)[4], const uint32_t (&)[4], const uint32_t (&)[2])) {
  constexpr uint32_t kDepth = 32 / sizeof(Element);
  std::vector<Element> a(16 * kDepth), b(kDepth * 8);
  std::vector<Sum> c(16 * 8);
  for (uint32_t i = 0; i < a.size(); ++i) a[i] = narrow(static_cast<float>(number(i)));
  for (uint32_t i = 0; i < b.size(); ++i) b[i] = narrow(static_cast<float>(number(i + 1000)));
  for (uint32_t i = 0; i < c.size(); ++i) c[i] = static_cast<Sum>(i);
  const Kernel<Product<Element, Sum>> kernel{"multiply", multiply<Element, Sum>};
  ASSERT_TRUE(stream.launch(kernel, {{1, 1, 1}, 32, 0}, {a.data(), b.data(), c.data(), mma}).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  for (uint32_t row = 0; row < 16; ++row) {
    for (uint32_t column = 0; column < 8; ++column) {
      int expected = static_cast<int>(row * 8 + column);
      for (uint32_t k = 0; k < kDepth; ++k) {
        expected += number(row * kDepth + k) * number(k * 8 + column + 1000);
      }
      EXPECT_EQ(c[row * 8 + column], static_cast<Sum>(expected)) << row << ", " << column;
    }
  }
}

TEST_P(Emulator, MultipliesF16) {
  check_product<uint16_t, float>(*this, *stream_, f16_bits, mma_f16);
}
TEST_P(Emulator, MultipliesBF16) {
  check_product<uint16_t, float>(*this, *stream_, bf16_bits, mma_bf16);
}
int8_t whole_byte(float x) {
  return static_cast<int8_t>(x);
}
TEST_P(Emulator, MultipliesS8) {
  check_product<int8_t, int32_t>(*this, *stream_, whole_byte,
                                 [](int32_t(&c)[4], const uint32_t(&a)[4], const uint32_t(&b)[2]) {
                                   int32_t sums[4];
                                   mma_s8_32(sums, a, b, 1000);
                                   for (int i = 0; i < 4; ++i) c[i] += sums[i] - 1000;
                                 });
}
// Two halves of the depth one after the other.
TEST_P(Emulator, MultipliesS8ByHalves) {
  check_product<int8_t, int32_t>(*this, *stream_, whole_byte,
                                 [](int32_t(&c)[4], const uint32_t(&a)[4], const uint32_t(&b)[2]) {
                                   int32_t low[4], high[4];
                                   mma_s8_16(low, {a[0], a[1]}, b[0], 0);
                                   mma_s8_16(high, {a[2], a[3]}, b[1], 7);
                                   for (int i = 0; i < 4; ++i) c[i] += low[i] + high[i] - 7;
                                 });
}

struct Matrices {
  const uint16_t* in;  // [32][8]
  uint32_t* out;       // [32][8]: plain, then transposed
};

void load_both(Matrices p) {
  begin_in_order();
  __shared__ uint16_t rows[32][8];
  for (uint32_t i = 0; i < 8; ++i) rows[lane_index()][i] = p.in[lane_index() * 8 + i];
  __syncwarp();
  uint32_t plain[4], transposed[4];
  load_matrices(plain, rows[lane_index()]);
  load_matrices_transposed(transposed, rows[lane_index()]);
  for (uint32_t i = 0; i < 4; ++i) {
    p.out[lane_index() * 8 + i] = plain[i];
    p.out[lane_index() * 8 + 4 + i] = transposed[i];
  }
}

TEST_P(Emulator, LoadsMatrices) {
  std::vector<uint16_t> in(32 * 8);
  std::iota(in.begin(), in.end(), uint16_t{0});
  std::vector<uint32_t> out(32 * 8);
  ASSERT_TRUE(run(load_both, {{1, 1, 1}, 32, 0}, {in.data(), out.data()}).ok());
  const auto at = [](uint32_t matrix, uint32_t row, uint32_t column) {
    return matrix * 64 + row * 8 + column;
  };
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t row = lane / 4, column = lane % 4 * 2;
    for (uint32_t m = 0; m < 4; ++m) {
      EXPECT_EQ(out[lane * 8 + m], at(m, row, column) | at(m, row, column + 1) << 16);
      EXPECT_EQ(out[lane * 8 + 4 + m], at(m, column, row) | at(m, column + 1, row) << 16);
    }
  }
}

struct Copy {
  const uint8_t* in;
  uint8_t* out;
  uint32_t waits;
};

void copy_by_groups(Copy p) {
  begin_in_order();
  BP_DYNAMIC_SHARED(shared);
  const uint32_t at = threadIdx.x * 16;
  copy_async(shared + at, p.in + at);
  close_copies();
  copy_async(shared + 512 + at, p.in + 512 + at, 5);
  close_copies();
  if (p.waits != 0) wait_for_copies<1>();
  for (uint32_t i = 0; i < 16; ++i) p.out[at + i] = shared[at + i];
  wait_for_copies<0>();
  for (uint32_t i = 0; i < 16; ++i) p.out[512 + at + i] = shared[512 + at + i];
}

TEST_P(Emulator, CopiesArriveWhenWaitedFor) {
  std::vector<uint8_t> in(1024), out(1024);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint8_t>(i * 31 + i / 256);
  ASSERT_TRUE(run(copy_by_groups, {{1, 1, 1}, 32, 1024}, {in.data(), out.data(), 1}).ok());
  for (size_t i = 0; i < in.size(); ++i) {
    EXPECT_EQ(out[i], i < 512 || i % 16 < 5 ? in[i] : 0) << i;
  }
}

TEST(EmulatorOrders, ForwardShowsACopyThatIsNotWaitedFor) {
  EmulatedDevice device({Order::kForward, 1 << 20});
  const auto stream = std::move(device.make_stream()).value();
  std::vector<uint8_t> in(1024, 1), out(1024, 0);
  const Kernel<Copy> kernel{"copy", copy_by_groups};
  ASSERT_TRUE(stream->launch(kernel, {{1, 1, 1}, 32, 1024}, {in.data(), out.data(), 0}).ok());
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(out[0], 0xff);
  EXPECT_EQ(out[512], 1);
}

// ---- streams
// --------------------------------------------------------------------------------------

TEST_P(Emulator, WorkIsDoneWhenItIsWaitedFor) {
  std::vector<int> from{1, 2, 3}, to(3);
  ASSERT_TRUE(stream_->copy_to_device(to.data(), from.data(), 12).ok());
  EXPECT_EQ(to[2], 0);
  const auto event = std::move(device_.make_event()).value();
  ASSERT_TRUE(stream_->record(*event).ok());
  from = {4, 5, 6};
  const auto other = std::move(device_.make_stream()).value();
  std::vector<int> last(3);
  ASSERT_TRUE(other->wait(*event).ok());
  ASSERT_TRUE(other->copy_to_device(last.data(), to.data(), 12).ok());
  ASSERT_TRUE(other->synchronize().ok());
  EXPECT_EQ(last, (std::vector<int>{4, 5, 6}));
}

TEST_P(Emulator, GraphsRunAgain) {
  std::vector<int> out(2);
  ASSERT_TRUE(stream_->begin_capture().ok());
  ASSERT_TRUE(
      stream_->launch(Kernel<Ints>{"count", count}, {{1, 1, 1}, 40, 0}, {out.data(), 0}).ok());
  auto graph = std::move(stream_->end_capture()).value();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(stream_->run(*graph).ok());
  EXPECT_EQ(out[0], 0);
  ASSERT_TRUE(stream_->synchronize().ok());
  EXPECT_EQ(out[0], 120);
}

TEST_P(Emulator, MemoryThatDoesNotFitIsASentence) {
  const auto taken = device_.allocate(MemoryKind::kDevice, 900 << 10, "the weights");
  ASSERT_TRUE(taken.ok());
  const auto more = device_.allocate(MemoryKind::kDevice, 300 << 10, "the KV cache");
  EXPECT_EQ(more.status().code(), Code::kOutOfMemory);
  EXPECT_EQ(
      more.status().message(),
      "0.29 MiB for the KV cache are needed, 0.12 MiB of 1.00 MiB are free on the emulated device");
}

}  // namespace
}  // namespace bp::cuda
