// Blocks to host memory and back on the emulated device: every type of the cache, more blocks than
// are staged at once, and steps in flight. backplane-conform holds the rest.

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <numeric>
#include <random>

#include "backends/cuda/emulator/emulated_device.hpp"
#include "backplane/dtype.hpp"
#include "sdk/conformance/support/kv_transfer_client.hpp"
#include "sdk/conformance/support/program_builder.hpp"
#include "sdk/conformance/support/steps_in_flight.hpp"
#include "tests/backends/cuda/small_session.hpp"

namespace bp::cuda {
namespace {

using namespace conformance;

struct Transferring {
  explicit Transferring(uint32_t n_blocks, bp_dtype k = BP_DTYPE_F32, bp_dtype v = BP_DTYPE_F32)
      : session(kFactory) {
    bp_compile_options options = small_options();
    options.k_dtype = k;
    options.v_dtype = v;
    const Status status = session.try_compile(llama.program(), options);
    if (!status.ok()) throw Failure(status.message());
    transfer = std::make_unique<KvTransferClient>(session);
    session.allocate(1, n_blocks);
  }
  void prompt(const std::vector<int32_t>& blocks) {
    BatchBuilder batch;
    std::vector<int32_t> tokens(20);
    std::iota(tokens.begin(), tokens.end(), 3);
    batch.add_sequence(tokens, 0, blocks);
    ASSERT_TRUE(session.run(batch.build()).ok());
  }
  std::vector<float> decode(const std::vector<int32_t>& blocks) {
    BatchBuilder batch;
    batch.add_sequence({2}, 20, blocks);
    batch.add_output(0, {0}, kVocab);
    EXPECT_TRUE(session.run(batch.build()).ok());
    return batch.output(0);
  }

  TinyLlama llama;
  BackendSession session;
  std::unique_ptr<KvTransferClient> transfer;
};

TEST(BlockTransfer, EveryTypeComesBackBitForBit) {
  for (const auto& [k, v] : {std::pair{BP_DTYPE_F32, BP_DTYPE_F32},
                             {BP_DTYPE_F16, BP_DTYPE_BF16},
                             {BP_DTYPE_F8_E4M3, BP_DTYPE_F8_E4M3},
                             {BP_DTYPE_Q8_0, BP_DTYPE_Q8_0},
                             {BP_DTYPE_F16, BP_DTYPE_Q8_0}}) {
    Transferring t(16, k, v);
    t.prompt({1, 2});
    const auto images = t.transfer->export_blocks(0, {1, 2});
    const auto expected = t.decode({1, 2});
    t.transfer->import_blocks(0, {11, 7}, images);
    EXPECT_EQ(t.decode({11, 7}), expected) << dtype_name(k) << " " << dtype_name(v);
  }
}

TEST(BlockTransfer, MoreBlocksThanAreStagedAtOnce) {
  constexpr uint32_t kMany = 600, kMoved = 290;
  Transferring t(kMany);
  t.prompt({2, 289});
  std::vector<int32_t> from(kMoved), to(kMoved);
  std::iota(from.begin(), from.end(), 1);
  std::iota(to.rbegin(), to.rend(), 300);
  const auto images = t.transfer->export_blocks(0, from);
  const auto expected = t.decode({2, 289});
  t.transfer->import_blocks(0, to, images);
  EXPECT_EQ(t.decode({to[1], to[288]}), expected);
  EXPECT_EQ(t.transfer->export_blocks(0, {from[0], from[100]}),
            t.transfer->export_blocks(0, {to[0], to[100]}));
}

// One that writes block 3, and one that copies it to block 5 first.
TEST(BlockTransfer, ComesAfterTheStepsSubmittedBefore) {
  Transferring t(16);
  BatchBuilder writes, copies;
  writes.add_sequence({5, 6, 7, 8}, 0, {3});
  copies.add_sequence({9}, 0, {4});
  copies.add_block_op({BP_BLOCK_COPY, BP_BLOCK_OF_GROUP, 0, 3, 5});
  const auto before = t.transfer->export_blocks(0, {3});
  StepsInFlight flight(t.session, 2);
  ASSERT_EQ(flight.submit(writes, 1), BP_OK);
  ASSERT_EQ(flight.submit(copies, 1), BP_OK);
  const auto in_flight = t.transfer->export_blocks(0, {3});
  EXPECT_EQ(in_flight, t.transfer->export_blocks(0, {5}));
  flight.collect_all();
  EXPECT_NE(in_flight, before);
  EXPECT_EQ(in_flight, t.transfer->export_blocks(0, {3}));
}

TEST(BlockTransfer, CountsItsMemoryAndIsPreparedBeforeTheCache) {
  TinyLlama llama;
  BackendSession session(kFactory);
  ASSERT_TRUE(session.try_compile(llama.program(), BackendSession::default_options()).ok());
  const uint64_t before = session.memory().workspace_bytes;
  const KvTransferClient transfer(session);
  EXPECT_GE(session.memory().workspace_bytes, before + transfer.image_bytes(0));
  session.allocate(1, 4);
  EXPECT_THROW(KvTransferClient{session}, Failure);
}

// Bytes that mean something are random, in block 1.
void fill_rows(const KvPlane& plane, std::mt19937& random) {
  const uint32_t n_scales = plane.dtype == BP_DTYPE_Q8_0 ? (plane.head_dim + 31) / 32 : 0;
  const uint32_t n_bytes = plane.dtype == BP_DTYPE_Q8_0
                               ? plane.head_dim
                               : plane.head_dim * dtype_info(plane.dtype).block_bytes;
  uint8_t* row = plane.data + size_t{plane.n_heads} * plane.block_size * plane.row_bytes;
  for (uint32_t r = 0; r < plane.n_heads * plane.block_size; ++r, row += plane.row_bytes) {
    for (uint32_t i = 0; i < n_bytes; ++i) row[i] = static_cast<uint8_t>(random());
    uint8_t* scales = row + (plane.head_dim + 3) / 4 * 4;
    for (uint32_t i = 0; i < 2 * n_scales; ++i) scales[i] = static_cast<uint8_t>(random());
  }
}

std::vector<uint8_t> block_of(const KvPlane& plane, uint32_t block) {
  const size_t n = size_t{plane.n_heads} * plane.block_size * plane.row_bytes;
  return {plane.data + block * n, plane.data + (block + 1) * n};
}

TEST(BlockTransfer, RowsOfOddWidthsComeBack) {
  std::mt19937 random(3);
  for (const bp_dtype dtype :
       {BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F8_E4M3, BP_DTYPE_Q8_0}) {
    SCOPED_TRACE(dtype_name(dtype));
    emulator::EmulatedDevice device({emulator::Order::kForward, 64 << 20});
    const std::unique_ptr<Stream> stream = device.make_stream().value();
    ProgramBuilder program;
    program.add_kv_group();
    program.add_kv_slot({0, 3, 128, 40});
    program.add_kv_slot({0, 1, 33, 7});
    const ProgramView view(program.build());
    KvCache kv(view.kv_slots(), 1, 16, dtype, dtype);
    const StateCache states(view.state_slots());
    BlockTransfer transfer(view, kv);
    ASSERT_TRUE(transfer.allocate(device).ok());
    ASSERT_TRUE(kv.allocate(device, *stream, std::array{4u}).ok());
    ASSERT_TRUE(stream->synchronize().ok());
    const KvPlane planes[] = {kv.k(0), kv.v(0), kv.k(1), kv.v(1)};
    for (const KvPlane& plane : planes) fill_rows(plane, random);
    std::vector<uint8_t> images(2 * transfer.images().image_bytes(0));
    const int32_t from[] = {2, 1}, to[] = {1, 3};
    ASSERT_TRUE(transfer.export_blocks(*stream, kv, states, 0, from, images).ok());
    std::vector<std::vector<uint8_t>> before;
    for (const KvPlane& plane : planes) before.push_back(block_of(plane, 1));
    ASSERT_TRUE(transfer.import_blocks(*stream, kv, states, 0, to, images).ok());
    for (size_t i = 0; i < std::size(planes); ++i) {
      EXPECT_EQ(block_of(planes[i], 3), before[i]) << i;
      EXPECT_EQ(block_of(planes[i], 1), block_of(planes[i], 2)) << i;
    }
  }
}

}  // namespace
}  // namespace bp::cuda
