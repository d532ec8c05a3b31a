// Parts of mapped files that are asked for.

#include "core/model/mapping.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "sdk/conformance/support/temporary_folder.hpp"

namespace bp::model {
namespace {

using namespace std::chrono_literals;

// Pages of a mapped file that the system holds.
std::vector<unsigned char> held_pages(const Mapping& mapping) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((mapping.bytes().size() + page - 1) / page);
  auto* data = const_cast<std::byte*>(mapping.bytes().data());
  EXPECT_EQ(::mincore(data, mapping.bytes().size(), pages.data()), 0);
  for (unsigned char& is_held : pages) is_held &= 1;
  return pages;
}

TEST(MappingTest, ReadsWhatItIsAskedForAndNothingAround) {
  constexpr size_t kBytes = size_t{16} << 20;
  const conformance::TemporaryFolder folder("backplane-mapping");
  const std::string path = (folder.path() / "weights").string();
  std::ofstream(path, std::ios::binary) << std::string(kBytes, 'w');
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ::fsync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);

  const auto mapping = Mapping::open(path);
  ASSERT_TRUE(mapping.ok()) << mapping.status().message();
  const auto before = held_pages(**mapping);
  if (std::ranges::count(before, 1) != 0) {
    GTEST_SKIP() << "the system keeps the file in memory, like one of tmpfs";
  }
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t first = kBytes / 2 / page;
  (*mapping)->ask_for(first * page + 100, page);  // of two pages
  std::vector<unsigned char> pages;
  for (int i = 0; i < 500; ++i) {
    pages = held_pages(**mapping);
    if (pages[first] != 0 && pages[first + 1] != 0) break;
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(pages[first], 1);
  EXPECT_EQ(pages[first + 1], 1);
  EXPECT_LE(std::ranges::count(pages, 1), 16);
}

}  // namespace
}  // namespace bp::model
