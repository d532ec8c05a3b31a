// Weights on their way to the device: how rows lie there, who shares them, and what stops them.

#include "backends/cuda/weights/weight_store.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <numeric>

#include "backends/cuda/emulator/emulated_device.hpp"
#include "backplane/file_mappings.hpp"
#include "backplane/half.hpp"
#include "sdk/conformance/support/temporary_folder.hpp"

namespace bp::cuda {
namespace {

bp_weight_part part_of(bp_dtype dtype, std::vector<uint64_t> dims, const void* data,
                       uint64_t stride) {
  bp_weight_part part{};
  part.dtype = dtype;
  part.n_dims = static_cast<uint32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), part.dims);
  part.row_stride_bytes = stride;
  part.data = data;
  return part;
}

class Weights : public testing::Test {
 protected:
  std::shared_ptr<DeviceWeight> placed(const bp_weight_part& part, bool as_floats) {
    auto weight = store_.get(SourceRows::of(part, as_floats));
    const Status status = store_.place(device_, {weight}, Progress(nullptr));
    EXPECT_TRUE(status.ok()) << status.message();
    return weight;
  }

  emulator::EmulatedDevice device_{{emulator::Order::kForward, 48 << 20}};
  WeightStore store_;
};

TEST_F(Weights, PlainRowsEndInZerosUpToEightColumns) {
  std::vector<float> values(3 * 7);  // of which each row has 5
  std::iota(values.begin(), values.end(), 1.0f);
  const auto weight = placed(part_of(BP_DTYPE_F32, {3, 5}, values.data(), 28), false);
  const Matrix matrix = weight->matrix();
  EXPECT_EQ(matrix.row_bytes, 32u);
  for (uint32_t row = 0; row < 3; ++row) {
    const auto* found = reinterpret_cast<const float*>(matrix.data + row * matrix.row_bytes);
    for (uint32_t i = 0; i < 8; ++i) {
      EXPECT_EQ(found[i], i < 5 ? values[row * 7 + i] : 0) << row << ", " << i;
    }
  }
}

TEST_F(Weights, BlocksAreTakenApartIntoPlanes) {
  std::vector<uint8_t> blocks(2 * 3 * 34);  // q8_0, 96 columns
  std::iota(blocks.begin(), blocks.end(), uint8_t{0});
  const auto weight = placed(part_of(BP_DTYPE_Q8_0, {2, 96}, blocks.data(), 102), false);
  const Matrix matrix = weight->matrix();
  EXPECT_EQ(matrix.row_bytes, 112u);
  for (uint32_t row = 0; row < 2; ++row) {
    for (uint32_t block = 0; block < 3; ++block) {
      const uint8_t* from = blocks.data() + row * 102 + block * 34;
      const uint8_t* planes = matrix.data + row * 112;
      EXPECT_EQ(std::memcmp(planes + 32 * block, from + 2, 32), 0);
      EXPECT_EQ(std::memcmp(planes + 96 + 2 * block, from, 2), 0);
    }
  }
}

TEST_F(Weights, OtherBlocksStayAsTheyAre) {
  std::vector<uint8_t> blocks(2 * 2 * 66);  // iq2_xxs, 512 columns
  std::iota(blocks.begin(), blocks.end(), uint8_t{0});
  const auto weight = placed(part_of(BP_DTYPE_IQ2_XXS, {2, 512}, blocks.data(), 132), false);
  const Matrix matrix = weight->matrix();
  EXPECT_EQ(matrix.row_bytes, 144u);
  EXPECT_EQ(std::memcmp(matrix.data, blocks.data(), 132), 0);
  EXPECT_EQ(std::memcmp(matrix.data + 144, blocks.data() + 132, 132), 0);
}

TEST_F(Weights, NormsBecomeFloats) {
  const std::vector<uint16_t> halves{f32_to_f16(1.5f), f32_to_f16(-2), f32_to_f16(0.25f)};
  const auto weight = placed(part_of(BP_DTYPE_F16, {3}, halves.data(), 6), true);
  EXPECT_EQ(std::vector<float>(weight->floats(), weight->floats() + 3),
            (std::vector<float>{1.5f, -2, 0.25f}));
}

TEST_F(Weights, LargerThanTheBuffersArriveWhole) {
  std::vector<uint32_t> values(9000 * 1000);  // 36 MB through buffers of 16
  std::iota(values.begin(), values.end(), 0u);
  const auto weight = placed(part_of(BP_DTYPE_F32, {9000, 1000}, values.data(), 4000), false);
  EXPECT_EQ(std::memcmp(weight->matrix().data, values.data(), values.size() * 4), 0);
}

// KiB of the mapping of an address that are in this process's memory.
int kib_in_memory(const void* data) {
  std::ifstream maps("/proc/self/smaps");
  bool is_inside = false;
  for (std::string line; std::getline(maps, line);) {
    if (const auto mapping = MappingLine::parse(line)) is_inside = mapping->holds(data);
    if (is_inside && line.starts_with("Rss:")) return std::stoi(line.substr(4));
  }
  return -1;
}

TEST_F(Weights, PagesOfTheirFileAreInMemoryNoLonger) {
  const conformance::TemporaryFolder folder("backplane-weights");
  const std::string path = (folder.path() / "weights").string();
  constexpr size_t kBytes = 1 << 20;
  std::ofstream(path) << std::string(kBytes, 'w');
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* const data = ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0);
  ::close(fd);
  ASSERT_NE(data, MAP_FAILED);
  const auto weight = placed(part_of(BP_DTYPE_F32, {256, 1024}, data, 4096), false);
  EXPECT_EQ(kib_in_memory(data), 0);
  EXPECT_EQ(std::memcmp(weight->matrix().data, data, kBytes), 0);  // and come back
  EXPECT_GT(kib_in_memory(data), 0);
  ::munmap(data, kBytes);
}

TEST_F(Weights, OneThatIsThereIsShared) {
  const std::vector<float> values(64, 1);
  const auto part = part_of(BP_DTYPE_F32, {8, 8}, values.data(), 32);
  const auto first = placed(part, false);
  const uint64_t free = device_.free_bytes().value();
  EXPECT_EQ(placed(part, false), first);
  EXPECT_EQ(device_.free_bytes().value(), free);
  EXPECT_NE(placed(part, true), first);
}

TEST_F(Weights, MemoryGoesBackWithTheLastUser) {
  const std::vector<float> values(64, 1);
  const uint64_t before = device_.free_bytes().value();
  { const auto weight = placed(part_of(BP_DTYPE_F32, {8, 8}, values.data(), 32), false); }
  EXPECT_EQ(device_.free_bytes().value(), before);
}

TEST_F(Weights, TooLargeOnesAreASentence) {
  const uint8_t byte = 0;
  const auto weight =
      store_.get(SourceRows::of(part_of(BP_DTYPE_F32, {4096, 4096}, &byte, 16384), false));
  const Status status = store_.place(device_, {weight}, Progress(nullptr));
  EXPECT_EQ(status.code(), Code::kOutOfMemory);
  EXPECT_EQ(status.message(),
            "64.00 MiB for the weights are needed, 48.00 MiB of 48.00 MiB are free on the emulated "
            "device");
  EXPECT_FALSE(weight->is_placed());
}

TEST_F(Weights, ProgressStopsThem) {
  const std::vector<float> values(64, 1);
  const auto weight =
      store_.get(SourceRows::of(part_of(BP_DTYPE_F32, {8, 8}, values.data(), 32), false));
  auto progress = make_growable<bp_progress>();
  progress.report = [](void*, uint64_t, uint64_t) { return 1; };
  const Status status = store_.place(device_, {weight}, Progress(&progress));
  EXPECT_EQ(status.code(), Code::kCancelled);
  EXPECT_FALSE(weight->is_placed());
}

}  // namespace
}  // namespace bp::cuda
