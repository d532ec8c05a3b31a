// The topology of machines that are written as files in a folder.

#include "core/base/cpu_topology.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <fstream>
#include <string>

namespace bp::base {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<uint32_t>;

class CpuTopologyTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "cpu-topology-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  // Two nodes of two cores of two hyperthreads, numbered as Linux does: 0 to 3, then their
  // siblings.
  void write_two_nodes() {
    for (uint32_t id = 0; id < 8; ++id) {
      const std::string core = std::to_string(id % 4);
      write("sys/devices/system/cpu/cpu" + std::to_string(id) + "/topology/thread_siblings_list",
            core + "," + std::to_string(id % 4 + 4));
    }
    write("sys/devices/system/node/online", "0-1");
    write("sys/devices/system/node/node0/cpulist", "0-1,4-5");
    write("sys/devices/system/node/node1/cpulist", "2-3,6-7");
  }
  [[nodiscard]] CpuTopology read(const Ids& allowed = {0, 1, 2, 3, 4, 5, 6, 7}) const {
    return read_topology(root_, allowed);
  }

  fs::path root_;
};

TEST_F(CpuTopologyTest, CountsCoresOnceAndFillsThemFirst) {
  write_two_nodes();
  EXPECT_EQ(read().n_usable(), 8u);
  EXPECT_EQ(read().n_cores(), 4u);
  EXPECT_EQ(read().placement(4), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(read().placement(6), (Ids{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(read().placement(9), Ids{});
}

TEST_F(CpuTopologyTest, SeesOnlyTheAffinityMask) {
  write_two_nodes();
  EXPECT_EQ(read({1, 5, 6}).n_cores(), 2u);
  EXPECT_EQ(read({1, 5, 6}).n_usable(), 3u);
  EXPECT_EQ(read({1, 5, 6}).placement(2), (Ids{1, 6}));
  EXPECT_EQ(read({1, 5, 6}).placement(3), (Ids{1, 6, 5}));
}

TEST_F(CpuTopologyTest, PlacesWorkersNodeByNode) {
  write_two_nodes();
  write("sys/devices/system/node/node0/cpulist", "1,3,5,7");
  write("sys/devices/system/node/node1/cpulist", "0,2,4,6");
  EXPECT_EQ(read().placement(3), (Ids{1, 3, 0}));
}

TEST_F(CpuTopologyTest, TheTightestQuotaOfTheGroupsBinds) {
  write_two_nodes();
  write("proc/self/cgroup", "0::/machine/service");
  write("sys/fs/cgroup/machine/service/cpu.max", "max 100000");
  EXPECT_EQ(read().n_cores(), 4u);
  write("sys/fs/cgroup/machine/cpu.max", "250000 100000");
  EXPECT_EQ(read().n_cores(), 3u);
  EXPECT_EQ(read().n_usable(), 3u);
  write("sys/fs/cgroup/machine/service/cpu.max", "50000 100000");
  EXPECT_EQ(read().n_cores(), 1u);
}

TEST_F(CpuTopologyTest, ReadsQuotasOfTheFirstVersion) {
  write("proc/self/cgroup", "4:cpu,cpuacct:/batch");
  write("sys/fs/cgroup/cpu/batch/cpu.cfs_quota_us", "150000");
  write("sys/fs/cgroup/cpu/batch/cpu.cfs_period_us", "100000");
  EXPECT_EQ(read().n_usable(), 2u);
  write("sys/fs/cgroup/cpu/batch/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(read().n_usable(), 8u);
}

TEST_F(CpuTopologyTest, WhatIsMissingCountsAsOneCoreEach) {
  EXPECT_EQ(read().n_cores(), 8u);
  EXPECT_EQ(read({3}).placement(1), Ids{3});
  EXPECT_EQ(read({}).n_usable(), 1u);
}

TEST(OwnTopology, HasNoMoreThanTheAffinityMask) {
  cpu_set_t set;
  CPU_ZERO(&set);
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  const CpuTopology own = own_topology();
  EXPECT_EQ(own.cpus.size(), static_cast<size_t>(CPU_COUNT(&set)));
  EXPECT_GE(own.n_cores(), 1u);
  EXPECT_LE(own.n_cores(), own.n_usable());
}

}  // namespace
}  // namespace bp::base
