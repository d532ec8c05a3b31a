// Where weights are kept, by the memory there is; and how much that is.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "backends/cpu/available_memory.hpp"
#include "backends/cpu/weights/choose_preparation.hpp"
#include "backends/cpu/weights/file_pages.hpp"
#include "sdk/conformance/support/temporary_folder.hpp"

namespace bp::cpu {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

// A model of 9 billion parameters in 4 bits.
MemoryNeeds large() {
  MemoryNeeds needs;
  needs.packed = needs.cached = 5450 * 1000 * uint64_t{1000};
  needs.source = 5200 * 1000 * uint64_t{1000};
  needs.mapped = 150 * 1000 * uint64_t{1000};
  needs.kv = 400 * 1000 * uint64_t{1000};
  return needs;
}

Preparation automatic(CacheState cache, uint64_t available) {
  return choose_preparation(std::nullopt, large(), cache, available);
}

TEST(ChoosePreparation, RepacksWhereNoFileCanBeKept) {
  EXPECT_EQ(automatic(CacheState::kNone, 16 * kGiB), (Preparation{Prepare::kRepack}));
}

TEST(ChoosePreparation, MapsAFileThatIsThereOrCanBe) {
  EXPECT_EQ(automatic(CacheState::kReady, 16 * kGiB), (Preparation{Prepare::kCache}));
  EXPECT_EQ(automatic(CacheState::kWritable, 16 * kGiB), (Preparation{Prepare::kCache}));
}

TEST(ChoosePreparation, WritesNoFileForASmallModel) {
  MemoryNeeds small;
  small.packed = small.cached = small.source = 60 * 1000 * uint64_t{1000};
  const auto chosen = [&](CacheState cache, uint64_t available) {
    return choose_preparation(std::nullopt, small, cache, available).prepare;
  };
  EXPECT_EQ(chosen(CacheState::kWritable, 16 * kGiB), Prepare::kRepack);
  EXPECT_EQ(chosen(CacheState::kReady, 16 * kGiB), Prepare::kCache);
  EXPECT_EQ(chosen(CacheState::kWritable, kGiB / 4), Prepare::kCache);  // memory is scarce
}

TEST(ChoosePreparation, MapsWhatFitsOnlyJust) {
  EXPECT_EQ(automatic(CacheState::kWritable, 6 * kGiB), (Preparation{Prepare::kCache}));
  EXPECT_EQ(automatic(CacheState::kNone, 6 * kGiB), (Preparation{Prepare::kRepack}));
}

TEST(ChoosePreparation, StreamsWhatDoesNotFit) {
  const Preparation cached = automatic(CacheState::kWritable, 4 * kGiB);
  EXPECT_EQ(cached.prepare, Prepare::kCache);
  EXPECT_GT(cached.resident_bytes, 3 * kGiB);
  EXPECT_LT(cached.resident_bytes, 4 * kGiB - large().kv);
  const Preparation uncached = automatic(CacheState::kNone, 4 * kGiB);
  EXPECT_EQ(uncached.prepare, Prepare::kNone);
  EXPECT_EQ(uncached.resident_bytes, cached.resident_bytes);
  EXPECT_EQ(automatic(CacheState::kNone, 0).resident_bytes, 0u);
}

TEST(ChoosePreparation, DoesAsItIsTold) {
  const auto wanted = [](Prepare prepare, CacheState cache, uint64_t available) {
    return choose_preparation(prepare, large(), cache, available).prepare;
  };
  EXPECT_EQ(wanted(Prepare::kNone, CacheState::kReady, 16 * kGiB), Prepare::kNone);
  EXPECT_EQ(wanted(Prepare::kCache, CacheState::kWritable, 16 * kGiB), Prepare::kCache);
  EXPECT_EQ(wanted(Prepare::kRepack, CacheState::kReady, 16 * kGiB), Prepare::kRepack);
  // Without a folder to write to, as if nothing had been said.
  EXPECT_EQ(wanted(Prepare::kCache, CacheState::kNone, 16 * kGiB), Prepare::kRepack);
  EXPECT_EQ(wanted(Prepare::kCache, CacheState::kNone, 4 * kGiB), Prepare::kNone);
}

TEST(ChoosePreparation, CountsOnAFileForWhatAFileHoldsAlone) {
  // All matrices were quantised while loading, then all but one.
  MemoryNeeds quantised = large();
  quantised.unfiled = quantised.packed;
  quantised.source = quantised.cached = 0;
  const auto chosen = [](const MemoryNeeds& needs, uint64_t available) {
    return choose_preparation(std::nullopt, needs, CacheState::kWritable, available).prepare;
  };
  EXPECT_EQ(chosen(quantised, 16 * kGiB), Prepare::kRepack);
  EXPECT_EQ(chosen(quantised, 4 * kGiB), Prepare::kNone);
  quantised.unfiled -= kGiB;
  quantised.source = quantised.cached = kGiB;
  EXPECT_EQ(chosen(quantised, 16 * kGiB), Prepare::kCache);
  EXPECT_EQ(chosen(quantised, 4 * kGiB), Prepare::kNone);
  EXPECT_EQ(quantised.own_bytes(Prepare::kCache), quantised.unfiled);
  EXPECT_EQ(quantised.mapped_bytes(Prepare::kCache), quantised.mapped + kGiB);
  // What is in memory leaves less to what is mapped.
  EXPECT_EQ(resident_bytes_of(Prepare::kCache, quantised, 6 * kGiB), UINT64_MAX);
  EXPECT_LT(resident_bytes_of(Prepare::kCache, quantised, 5 * kGiB + kGiB / 2), kGiB);
}

class AvailableMemory : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_.path() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  uint64_t bytes() { return available_memory_bytes(root_.path().string()); }

  conformance::TemporaryFolder root_{"backplane-root"};
};

TEST_F(AvailableMemory, IsTheSystemsWithoutCgroups) {
  write("proc/meminfo", "MemTotal: 9000 kB\nMemFree:  10 kB\nMemAvailable:  5000 kB\n");
  EXPECT_EQ(bytes(), 5000u * 1024);
}

TEST_F(AvailableMemory, HeedsTheTightestGroupOfVersionTwo) {
  write("proc/meminfo", "MemAvailable: 9000 kB\n");
  write("proc/self/cgroup", "0::/a/b\n");
  write("sys/fs/cgroup/a/memory.max", "4000000\n");
  write("sys/fs/cgroup/a/memory.current", "3000000\n");
  // Cached files can be taken back.
  write("sys/fs/cgroup/a/memory.stat", "anon 900000\ninactive_file 1500000\nactive_file 500000\n");
  write("sys/fs/cgroup/a/b/memory.max", "max\n");
  write("sys/fs/cgroup/a/b/memory.current", "3000000\n");
  EXPECT_EQ(bytes(), 3000000u);
}

TEST_F(AvailableMemory, HeedsVersionOne) {
  write("proc/meminfo", "MemAvailable: 9000 kB\n");
  write("proc/self/cgroup", "4:memory:/x\n3:cpu,cpuacct:/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "123\n");
  write("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "2000000\n");
  write("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "1500000\n");
  write("sys/fs/cgroup/memory/x/memory.stat", "cache 1\ntotal_inactive_file 250000\n");
  EXPECT_EQ(bytes(), 750000u);
}

TEST_F(AvailableMemory, OthersHaveWhatTheyHaveMappedToShare) {
  for (const char* name : {"one", "another model", "own.strips"}) {
    write(name, std::string(size_t{64} << 10, 'w'));
  }
  const std::string folder = root_.path().string() + "/";
  const auto mapping = [](const char* head, const std::string& path, int kib) {
    return head + path + "\nSize: 400 kB\nRss: " + std::to_string(kib) + " kB\nPss: 7 kB\n";
  };
  write("proc/self/smaps",
        mapping("10000-20000 r--s 00000000 fd:00 11 \t", folder + "one", 12) +
            mapping("20000-30000 r--s 00010000 fd:00 11 ", folder + "one", 8) +
            mapping("40000-50000 r--s 00000000 fd:00 12 ", folder + "another model", 40) +
            mapping("60000-70000 r--s 00000000 fd:00 12 ", folder + "another model", 40) +
            mapping("80000-90000 r--s 00000000 fd:00 13 ", folder + "own.strips", 50) +
            // Neither what is private or written to, nor what has no file.
            mapping("a0000-b0000 r--p 00000000 fd:00 11 ", folder + "one", 16) +
            mapping("b0000-c0000 rw-s 00000000 fd:00 11 ", folder + "one", 16) +
            mapping("c0000-d0000 r--s 00000000 00:01 14 ", "/memfd:window (deleted)", 16) +
            mapping("d0000-e0000 rw-p 00000000 00:00 0 ", "[heap]", 16));
  const auto kib = [&](const WeightFiles& own) {
    return other_mapped_bytes(own, root_.path().string()) / 1024;
  };
  const uint64_t all = kib({});
  if (all == 0) GTEST_SKIP() << "the temporary folder lies in memory";
  EXPECT_EQ(all, 20 + 64 + 50);  // the second is in memory once
  EXPECT_EQ(kib({{}, folder + "own.strips"}), 20 + 64);
  EXPECT_EQ(kib({{reinterpret_cast<const void*>(0x28000)}, ""}), 64 + 50);
  EXPECT_EQ(kib({{reinterpret_cast<const void*>(0x30000)}, ""}), all);
}

TEST_F(AvailableMemory, IsNoneInAGroupThatIsFull) {
  write("proc/meminfo", "MemAvailable: 9000 kB\n");
  write("sys/fs/cgroup/memory.max", "1000\n");
  write("sys/fs/cgroup/memory.current", "2000\n");
  EXPECT_EQ(bytes(), 0u);
}

}  // namespace
}  // namespace bp::cpu
