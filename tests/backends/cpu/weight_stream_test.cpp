// Mapped weights that stay, that come and go, and pages that are given back.

#include "backends/cpu/weights/weight_stream.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "backends/cpu/aligned_buffer.hpp"
#include "backends/cpu/available_memory.hpp"
#include "backends/cpu/backend.hpp"
#include "backends/cpu/weights/file_pages.hpp"
#include "backplane/file_mappings.hpp"
#include "sdk/conformance/support/temporary_folder.hpp"
#include "sdk/conformance/support/tiny_llama.hpp"

namespace bp::cpu {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20;
constexpr uint32_t kStages = 20;
constexpr size_t kStageBytes = 3 * kMegabyte + 8192;

class FileOfWeights {
 public:
  explicit FileOfWeights(size_t n_bytes) : n_bytes_(n_bytes) {
    const std::string path = (folder_.path() / "weights").string();
    std::vector<char> part(kMegabyte);
    std::ofstream out(path, std::ios::binary);
    for (size_t at = 0; at < n_bytes; at += part.size()) {
      std::fill(part.begin(), part.end(), static_cast<char>(at / kMegabyte + 1));
      out.write(part.data(), static_cast<long>(std::min(part.size(), n_bytes - at)));
    }
    out.close();
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    data_ = static_cast<uint8_t*>(::mmap(nullptr, n_bytes, PROT_READ, MAP_SHARED, fd, 0));
    ::close(fd);
  }
  ~FileOfWeights() { ::munmap(data_, n_bytes_); }
  FileOfWeights(const FileOfWeights&) = delete;
  FileOfWeights& operator=(const FileOfWeights&) = delete;

  [[nodiscard]] const uint8_t* data() const { return data_; }
  [[nodiscard]] size_t n_bytes() const { return n_bytes_; }

 private:
  conformance::TemporaryFolder folder_{"backplane-stream"};
  size_t n_bytes_;
  uint8_t* data_ = nullptr;
};

std::vector<WeightStream::Use> uses_of(const FileOfWeights& file) {
  std::vector<WeightStream::Use> uses;
  for (uint32_t s = 0; s < kStages; ++s) {
    uses.push_back({s, {file.data() + s * kStageBytes, kStageBytes}});
  }
  return uses;
}

size_t resident_bytes(const uint8_t* data, size_t n_bytes) {
  std::ifstream smaps("/proc/self/smaps");
  char first[32];
  std::snprintf(first, sizeof first, "%lx-", reinterpret_cast<unsigned long>(data));
  bool is_inside = false;
  for (std::string line; std::getline(smaps, line);) {
    if (line.starts_with(first)) is_inside = true;
    if (is_inside && line.starts_with("Rss:")) return std::stoul(line.substr(4)) * 1024;
  }
  return n_bytes + 1;
}

TEST(WeightStreamTest, KeepsAllWhereItFits) {
  const FileOfWeights file(kStages * kStageBytes);
  WeightStream stream(uses_of(file), UINT64_MAX);
  EXPECT_EQ(stream.resident_bytes(), file.n_bytes());
  EXPECT_EQ(stream.streamed_bytes(), 0u);
  const auto team = Team::create(Host(), 2);
  EXPECT_TRUE(stream.load(*team, Progress(nullptr)).ok());
  EXPECT_EQ(resident_bytes(file.data(), file.n_bytes()), file.n_bytes());
}

TEST(WeightStreamTest, KeepsAFixedPartSpreadEvenly) {
  const FileOfWeights file(kStages * kStageBytes);
  const WeightStream stream(uses_of(file), 30 * kMegabyte);
  EXPECT_EQ(stream.resident_bytes() + stream.streamed_bytes(), file.n_bytes());
  EXPECT_LE(stream.resident_bytes(), 30 * kMegabyte);
  EXPECT_GE(stream.resident_bytes(), 14 * kMegabyte);
  EXPECT_EQ(WeightStream(uses_of(file), 0).resident_bytes(), 0u);
}

TEST(WeightStreamTest, StreamsWhatNeighbouringStagesReadAgainAndAgain) {
  const FileOfWeights file(kStages * kStageBytes);
  const WeightStream::Use use = {0, {file.data(), file.n_bytes()}, false, 40};
  const WeightStream stream({&use, 1}, 30 * kMegabyte);
  EXPECT_LE(stream.resident_bytes(), 30 * kMegabyte);
  EXPECT_EQ(stream.resident_bytes() + stream.streamed_bytes(), file.n_bytes());
}

TEST(WeightStreamTest, KeepsWhatADistantStageReadsAgain) {
  const FileOfWeights file(kStages * kStageBytes);
  std::vector<WeightStream::Use> uses = uses_of(file);
  uses.push_back({kStages, uses[0].bytes});
  const WeightStream stream(uses, 0);
  EXPECT_GE(stream.resident_bytes(), uses[0].bytes.size());
  EXPECT_LT(stream.resident_bytes(), file.n_bytes());
}

TEST(WeightStreamTest, LeavesWhatRowsChooseToTheSystem) {
  constexpr size_t kHalf = kStages * kStageBytes;
  const FileOfWeights file(2 * kHalf);
  std::vector<WeightStream::Use> uses;
  for (uint32_t s = 0; s < kStages; ++s) {
    uses.push_back({s, {file.data() + s * kStageBytes, kStageBytes}});
    uses.push_back({s, {file.data() + kHalf + s * kStageBytes, kStageBytes}, true});
  }
  // Room for all that every step reads, and some of the rest.
  WeightStream stream(uses, kHalf + 30 * kMegabyte);
  EXPECT_LE(stream.resident_bytes(), kHalf + 30 * kMegabyte);
  EXPECT_GT(stream.resident_bytes(), kHalf);
  EXPECT_EQ(stream.resident_bytes() + stream.streamed_bytes(), file.n_bytes());
  const auto team = Team::create(Host(), 2);
  ASSERT_TRUE(stream.load(*team, Progress(nullptr)).ok());
  EXPECT_EQ(resident_bytes(file.data(), file.n_bytes()), stream.resident_bytes());
  fault_in(file.data(), file.n_bytes());
  for (int step = 0; step < 2; ++step) {
    for (uint32_t s = 0; s < kStages; ++s) stream.advance(s);
  }
  EXPECT_EQ(resident_bytes(file.data(), file.n_bytes()), file.n_bytes());
}

TEST(WeightStreamTest, StepsReadTheSameBytesAndDropThem) {
  const FileOfWeights file(kStages * kStageBytes);
  WeightStream stream(uses_of(file), 20 * kMegabyte);
  const auto team = Team::create(Host(), 1);
  ASSERT_TRUE(stream.load(*team, Progress(nullptr)).ok());
  for (int step = 0; step < 3; ++step) {
    const uint32_t end = step == 1 ? 7 : kStages;  // the second one is broken off
    for (uint32_t s = 0; s < end; ++s) {
      stream.advance(s);
      for (size_t at = s * kStageBytes; at < (s + 1) * kStageBytes; at += kSmallPage) {
        ASSERT_EQ(file.data()[at], at / kMegabyte + 1);
      }
    }
  }
  // Of the first stages, what is streamed has gone.
  EXPECT_LT(resident_bytes(file.data(), file.n_bytes()), file.n_bytes());
}

TEST(WeightStreamTest, StopsLoadingWhenProgressAsksForIt) {
  const FileOfWeights file(kStages * kStageBytes);
  auto progress = make_growable<bp_progress>();
  progress.report = [](void*, uint64_t, uint64_t) { return 1; };
  const auto team = Team::create(Host(), 1);
  const WeightStream stream(uses_of(file), UINT64_MAX);
  EXPECT_EQ(stream.load(*team, Progress(&progress)).code(), Code::kCancelled);
}

// A model that is mapped and in memory when another one is planned.
TEST(OtherMappedBytesTest, AreNotAvailableToAnotherModel) {
  const uint64_t before = other_mapped_bytes({});
  const FileOfWeights file(96 * kMegabyte);
  EXPECT_EQ(other_mapped_bytes({}), before);
  fault_in(file.data(), file.n_bytes());
  const uint64_t with_file = other_mapped_bytes({});
  if (with_file == before) GTEST_SKIP() << "the temporary folder lies in memory, or Linux is old";
  EXPECT_EQ(with_file, before + file.n_bytes());
  const FileOfWeights own(kMegabyte);
  fault_in(own.data(), own.n_bytes());
  EXPECT_EQ(other_mapped_bytes({{own.data() + 5000}, ""}), with_file);

  conformance::TinyLlama llama;
  CpuBackend backend(Host(), Settings{Isa::kScalar, std::nullopt});
  auto plan = make_growable<bp_memory_plan>();
  auto options = make_growable<bp_compile_options>();
  options.max_context = options.max_step_tokens = 64;
  // What is free changes meanwhile, by less than the file.
  const uint64_t free_before = available_memory_bytes();
  ASSERT_TRUE(backend.plan_memory(llama.program(), options, plan).ok());
  const uint64_t free = std::max(free_before, available_memory_bytes());
  EXPECT_LT(plan.available_bytes, free - file.n_bytes() / 2);
}

TEST(FileMappingsTest, ReleasesPagesOfFilesOnly) {
  const FileOfWeights file(4 * kMegabyte);
  auto heap = AlignedBuffer::allocate(4 * kMegabyte, "a test");
  ASSERT_TRUE(heap.ok());
  std::fill_n((*heap).data(), (*heap).size(), uint8_t{7});
  fault_in(file.data(), file.n_bytes());
  EXPECT_EQ(resident_bytes(file.data(), file.n_bytes()), file.n_bytes());
  const FileMappings mappings;
  mappings.release(file.data(), file.n_bytes());
  mappings.release((*heap).data(), (*heap).size());
  EXPECT_EQ(resident_bytes(file.data(), file.n_bytes()), 0u);
  EXPECT_EQ(file.data()[3 * kMegabyte], 4);  // comes back
  EXPECT_TRUE(std::all_of((*heap).data(), (*heap).data() + (*heap).size(),
                          [](uint8_t byte) { return byte == 7; }));
}

}  // namespace
}  // namespace bp::cpu
