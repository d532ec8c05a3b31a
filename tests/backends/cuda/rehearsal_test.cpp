// Before the first step: what steps will launch is loaded before memory is told, has run before
// anything is captured, and touches no block and no state of a sequence.

#include "backends/cuda/rehearsal.hpp"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <random>

#include "backends/cuda/emulator/emulated_device.hpp"
#include "sdk/conformance/support/device_sampling.hpp"
#include "sdk/conformance/support/kv_transfer_client.hpp"
#include "sdk/conformance/support/recurrent_session.hpp"
#include "tests/backends/cuda/small_session.hpp"

namespace bp::cuda {
namespace {

using namespace conformance;

// Kernels by name, with the most shared memory.
using Kernels = std::map<std::string, uint32_t>;

void note(Kernels& kernels, const Launch& launch) {
  uint32_t& bytes = kernels.try_emplace(launch.name, 0).first->second;
  bytes = std::max(bytes, launch.geometry.shared_bytes);
}

void expect_within(const Kernels& few, const Kernels& all) {
  for (const auto& [name, bytes] : few) {
    const auto found = all.find(name);
    ASSERT_NE(found, all.end()) << name;
    EXPECT_LE(bytes, found->second) << name;
  }
}

struct Noted {
  Kernels loaded, run, captured;
};

class NotingStream : public emulator::EmulatedStream {
 public:
  explicit NotingStream(Noted& noted) : EmulatedStream(emulator::Order::kForward), noted_(noted) {}

  using Stream::launch;
  Status launch(const Launch& launch) override {
    note(is_capturing_ ? noted_.captured : noted_.run, launch);
    return EmulatedStream::launch(launch);
  }
  Status begin_capture() override {
    is_capturing_ = true;
    return EmulatedStream::begin_capture();
  }
  Result<std::unique_ptr<Graph>> end_capture() override {
    is_capturing_ = false;
    expect_within(noted_.captured, noted_.run);
    return EmulatedStream::end_capture();
  }

 private:
  Noted& noted_;
  bool is_capturing_ = false;
};

class NotingDevice : public emulator::EmulatedDevice {
 public:
  NotingDevice() : EmulatedDevice(emulator::EmulatedSettings()) {}
  Status load(const Launch& launch) override {
    note(noted.loaded, launch);
    return {};
  }
  Result<std::unique_ptr<Stream>> make_stream() override {
    return std::unique_ptr<Stream>(std::make_unique<NotingStream>(noted));
  }
  Noted noted;
};

class Rehearsal : public testing::TestWithParam<bp_dtype> {
 protected:
  Rehearsal() : backend_(Host(&host_), device_, Settings()) {
    bp_compile_options options = small_options(kMostTokens);
    options.max_step_tokens = kMostTokens;
    options.max_sequences = 40;
    executable_ = std::move(backend_.compile(llama_.program(), options)).value();
  }
  void allocate() {
    ASSERT_TRUE(executable_->kv_allocate(std::array{64u}).ok());
    ASSERT_TRUE(executable_->warm_up(Progress(nullptr)).ok());
  }
  // n_seqs sequences of n_each tokens, with rows of them all.
  void step(uint32_t n_seqs, uint32_t n_each) {
    BatchBuilder batch;
    std::vector<uint32_t> rows(n_seqs * n_each);
    std::iota(rows.begin(), rows.end(), 0);
    for (uint32_t s = 0; s < n_seqs; ++s) {
      std::vector<int32_t> blocks((n_each + 15) / 16);
      std::iota(blocks.begin(), blocks.end(), static_cast<int32_t>(1 + s * blocks.size()));
      batch.add_sequence(std::vector<int32_t>(n_each, is_sampled_ ? -1 : 3), 0, blocks);
    }
    batch.add_sampled_output(0, rows, kVocab,
                             std::vector<bp_row_request>(rows.size(), best_request()));
    is_sampled_ = true;
    uint64_t ticket = 0;
    ASSERT_TRUE(executable_->submit(batch.build(), ticket).ok());
    ASSERT_TRUE(executable_->collect(ticket).ok());
  }

  static constexpr uint32_t kMostTokens = 72;
  TinyLlama llama_{GetParam()};
  bp_host host_ = make_growable<bp_host>();
  std::shared_ptr<NotingDevice> device_ = std::make_shared<NotingDevice>();
  CudaBackend backend_;
  std::unique_ptr<Executable> executable_;
  bool is_sampled_ = false;
};
INSTANTIATE_TEST_SUITE_P(Weights, Rehearsal,
                         testing::Values(BP_DTYPE_F32, BP_DTYPE_BF16, BP_DTYPE_Q8_0));

TEST_P(Rehearsal, NoStepLaunchesWhatIsNew) {
  Noted& noted = device_->noted;
  EXPECT_GT(noted.loaded.size(), 10u);
  EXPECT_TRUE(noted.run.empty());
  const Kernels loaded = noted.loaded;
  allocate();
  EXPECT_GE(noted.captured.size(), 10u);
  expect_within(noted.run, loaded);
  const Kernels warm = noted.run;
  for (const auto& [n_seqs, n_each] : {std::pair{1u, 1u},
                                       {3u, 1u},
                                       {40u, 1u},
                                       {1u, 5u},
                                       {2u, 5u},
                                       {1u, 33u},
                                       {4u, 16u},
                                       {1u, kMostTokens}}) {
    step(n_seqs, n_each);
  }
  expect_within(noted.run, loaded);
  expect_within(noted.captured, warm);
  EXPECT_EQ(noted.loaded, loaded);
}

// Once more after the blocks have got contents.
void expect_untouched(BackendSession& session, const KvTransferClient& transfer, uint32_t group,
                      uint32_t n_blocks) {
  std::vector<int32_t> blocks(n_blocks - 1);
  std::iota(blocks.begin(), blocks.end(), 1);
  KvTransferClient::Bytes images = transfer.export_blocks(group, blocks);
  std::mt19937 random(7);
  for (size_t i = 0; i < images.size(); ++i) {
    const bool is_header = i % transfer.image_bytes(group) < sizeof(bp_kv_image_header);
    if (!is_header) images[i] = static_cast<uint8_t>(random());
  }
  transfer.import_blocks(group, blocks, images);
  const KvTransferClient::Bytes before = transfer.export_blocks(group, blocks);
  bp_error error{};
  ASSERT_EQ(session.table().warm_up(session.executable(), nullptr, &error), BP_OK);
  EXPECT_EQ(transfer.export_blocks(group, blocks), before);
}

TEST(WarmUp, LeavesBlocksAsTheyAre) {
  TinyLlama llama;
  BackendSession session(kFactory);
  ASSERT_TRUE(session.try_compile(llama.program(), small_options()).ok());
  const KvTransferClient transfer(session);
  session.allocate(1, kBlocks);
  expect_untouched(session, transfer, 0, kBlocks);
}

TEST(WarmUp, LeavesStatesAsTheyAre) {
  RecurrentSession recurrent(kFactory, nullptr, 0, true);
  expect_untouched(recurrent.session(), recurrent.transfer(), 0, RecurrentSession::kEntries);
}

struct Stopping {
  uint64_t n_left = ~uint64_t{0}, n_asked = 0, last_done = 0, last_total = 0;
  bp_progress progress = make_growable<bp_progress>();
  Stopping() {
    progress.user = this;
    progress.report = [](void* user, uint64_t done, uint64_t total) -> int32_t {
      auto& own = *static_cast<Stopping*>(user);
      EXPECT_GE(done, own.last_done);
      own.last_done = done;
      own.last_total = total;
      return own.n_asked++ >= own.n_left ? 1 : 0;
    };
  }
};

TEST(WarmUp, StopsBetweenStepsAndMayBeCalledAgain) {
  TinyLlama llama;
  BackendSession session(kFactory);
  ASSERT_TRUE(session.try_compile(llama.program(), small_options()).ok());
  session.allocate(1, kBlocks);
  const auto warm_up = [&](Stopping& stopping) {
    bp_error error{};
    return session.table().warm_up(session.executable(), &stopping.progress, &error);
  };
  Stopping never;
  ASSERT_EQ(warm_up(never), BP_OK);
  EXPECT_EQ(never.n_asked, never.last_total + 1);
  EXPECT_EQ(never.last_done, never.last_total);
  EXPECT_GT(never.last_total, 4u);  // graphs of 1, 2, 4 and 6 sequences, and steps before them
  for (uint64_t n = 0; n < never.n_asked; ++n) {
    Stopping stopping;
    stopping.n_left = n;
    EXPECT_EQ(warm_up(stopping), BP_CANCELLED) << n;
    EXPECT_EQ(stopping.n_asked, n + 1);
  }
  BatchBuilder first = prompts(3), second = decodes(3);
  EXPECT_TRUE(session.run(first.build()).ok());
  EXPECT_TRUE(session.run(second.build()).ok());
}

}  // namespace
}  // namespace bp::cuda
