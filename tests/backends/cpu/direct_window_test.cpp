// Segments of a mapped file that pass by in every step.

#include "backends/cpu/weights/direct_window.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/round_up.hpp"
#include "sdk/conformance/probe/sanitizer.hpp"
#include "sdk/conformance/support/temporary_folder.hpp"

namespace bp::cpu {
namespace {

constexpr uint64_t kPart = 2 * kHugePage;
constexpr uint64_t kMost = 16 * kPart;

// Of the word at that place in the file.
uint32_t content_at(uint64_t offset, uint32_t salt) {
  return static_cast<uint32_t>(offset / 4) * 2654435761u + salt;
}

class DirectWindowTest : public ::testing::Test {
 protected:
  // A file of n parts, mapped from a part's boundary on.
  void make_file(size_t n_parts, uint32_t salt = 0) {
    n_bytes_ = n_parts * kPart;
    const std::string path = write("weights", n_bytes_, salt);
    room_ = n_bytes_ + kPart;
    memory_ = ::mmap(nullptr, room_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory_, MAP_FAILED);
    const uintptr_t begin = round_up(reinterpret_cast<uintptr_t>(memory_), kPart);
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    file_ = std::make_shared<MappedFile>(MappedFile{fd, begin, begin + n_bytes_});
    ASSERT_NE(
        ::mmap(reinterpret_cast<void*>(begin), n_bytes_, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0),
        MAP_FAILED);
  }
  ~DirectWindowTest() override {
    if (memory_ != nullptr) ::munmap(memory_, room_);
    if (file_ != nullptr) ::close(file_->fd);
  }
  [[nodiscard]] std::string write(const std::string& name, size_t n_bytes, uint32_t salt) const {
    const std::string path = (folder_.path() / name).string();
    std::vector<uint32_t> words(n_bytes / 4);
    for (size_t i = 0; i < words.size(); ++i) words[i] = content_at(4 * i, salt);
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(words.data()), static_cast<long>(n_bytes));
    return path;
  }

  [[nodiscard]] StreamedSegment part(size_t i, uint32_t first_stage, uint32_t last_stage) const {
    return {file_->begin + i * kPart, file_->begin + (i + 1) * kPart, first_stage, last_stage};
  }
  // One part for each stage.
  [[nodiscard]] std::vector<StreamedSegment> part_a_stage(size_t n) const {
    std::vector<StreamedSegment> segments;
    for (uint32_t i = 0; i < n; ++i) segments.push_back(part(i, i, i));
    return segments;
  }
  // The first word of each page of a segment.
  static void expect_content(const MappedFile& file, const StreamedSegment& segment,
                             uint32_t salt = 0) {
    for (uintptr_t at = segment.begin; at < segment.end; at += kSmallPage) {
      ASSERT_EQ(*reinterpret_cast<const uint32_t*>(at), content_at(at - file.begin, salt));
    }
  }
  // Whether the pages at an address are memory instead of the file's.
  static bool is_memory(uintptr_t address) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      unsigned long begin = 0, end = 0, inode = 0;
      std::sscanf(line.c_str(), "%lx-%lx %*s %*x %*s %lu", &begin, &end, &inode);
      if (address >= begin && address < end) return inode == 0;
    }
    return false;
  }

  conformance::TemporaryFolder folder_{"backplane-window"};
  size_t n_bytes_ = 0, room_ = 0;
  void* memory_ = nullptr;
  std::shared_ptr<MappedFile> file_;
};

// Null only where a file system or kernel is unable to.
#define BP_CREATE_OR_SKIP(window, segments)                                \
  const auto window = DirectWindow::create(file_, segments, kPart, kMost); \
  if ((window) == nullptr) GTEST_SKIP() << "no reads past the system's cache here"

TEST_F(DirectWindowTest, EveryStageFindsWhatItReads) {
  constexpr uint32_t kStages = 24;  // more than there are slots
  make_file(kStages);
  std::vector<StreamedSegment> segments = part_a_stage(kStages);
  const std::vector<StreamedSegment> all = segments;
  BP_CREATE_OR_SKIP(window, segments);
  EXPECT_TRUE(segments.empty());
  EXPECT_EQ(window->n_segments(), kStages);
  EXPECT_LT(window->n_bytes(), n_bytes_);
  for (int step = 0; step < 4; ++step) {
    const uint32_t end = step == 1 ? 9 : kStages;  // the second one is broken off
    for (uint32_t s = 0; s < end; ++s) {
      window->advance(s);
      EXPECT_TRUE(is_memory(all[s].begin));
      expect_content(*file_, all[s]);
      EXPECT_TRUE(s == 0 || !is_memory(all[s - 1].begin));
    }
  }
}

TEST_F(DirectWindowTest, SegmentsStayUntilTheirLastStage) {
  make_file(20);
  std::vector<StreamedSegment> segments;
  for (uint32_t i = 0; i < 20; ++i) segments.push_back(part(i, i, i + (i % 3 == 0 ? 4 : 0)));
  const std::vector<StreamedSegment> all = segments;
  BP_CREATE_OR_SKIP(window, segments);
  for (int step = 0; step < 3; ++step) {
    for (uint32_t s = 0; s < 25; ++s) {
      window->advance(s);
      for (const StreamedSegment& segment : all) {
        const bool is_read = segment.first_stage <= s && s <= segment.last_stage;
        EXPECT_EQ(is_memory(segment.begin), is_read) << "stage " << s;
        if (is_read) expect_content(*file_, segment);
      }
    }
  }
}

TEST_F(DirectWindowTest, LeavesTheFileAsItWas) {
  make_file(16);
  {
    std::vector<StreamedSegment> segments = part_a_stage(16);
    BP_CREATE_OR_SKIP(window, segments);
    for (uint32_t s = 0; s < 5; ++s) window->advance(s);
  }
  for (const StreamedSegment& segment : part_a_stage(16)) {
    EXPECT_FALSE(is_memory(segment.begin));
    expect_content(*file_, segment);
  }
}

TEST_F(DirectWindowTest, WidensToHugePagesWithinTheFile) {
  make_file(4);
  std::vector<StreamedSegment> segments = part_a_stage(4);
  segments[1].begin += kSmallPage;
  segments[1].end -= kHugePage + kSmallPage;
  segments[3].end += kSmallPage;  // beyond the end
  BP_CREATE_OR_SKIP(window, segments);
  ASSERT_EQ(segments.size(), 1u);
  EXPECT_EQ(segments[0].first_stage, 3u);
  for (uint32_t s = 0; s < 4; ++s) {
    window->advance(s);
    expect_content(*file_, part(s, s, s));
  }
}

TEST_F(DirectWindowTest, LeavesWhatOneStageReadsTooMuchOf) {
  make_file(40);
  std::vector<StreamedSegment> segments;
  for (uint32_t i = 0; i < 40; ++i) segments.push_back(part(i, i < 2 ? 0 : 1, i < 38 ? 1 : 2));
  const std::vector<StreamedSegment> all = segments;
  BP_CREATE_OR_SKIP(window, segments);
  EXPECT_FALSE(segments.empty());
  EXPECT_EQ(segments.size() + window->n_segments(), all.size());
  EXPECT_LE(window->n_bytes(), kMost);
  for (int step = 0; step < 2; ++step) {
    for (uint32_t s = 0; s < 3; ++s) {
      window->advance(s);
      for (const StreamedSegment& segment : all) expect_content(*file_, segment);
    }
  }
}

// A file that is shorter than its mapping cannot be read; another one behind the descriptor tells
// which of the two was used.
TEST_F(DirectWindowTest, WhatCannotBeReadIsTheFiles) {
  make_file(8, 1);
  const std::string other = write("other", 4 * kPart, 2);
  const int fd = ::open(other.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  auto mixed = std::make_shared<MappedFile>(*file_);
  mixed->fd = fd;
  std::vector<StreamedSegment> segments = part_a_stage(8);
  {
    const auto window = DirectWindow::create(mixed, segments, kPart, kMost);
    if (window == nullptr) {
      ::close(fd);
      GTEST_SKIP() << "no reads past the system's cache here";
    }
    for (uint32_t s = 0; s < 8; ++s) {
      window->advance(s);
      expect_content(*file_, part(s, s, s), s < 4 ? 2 : 1);
    }
  }
  ::close(fd);
}

// While it lives the process may take no more data.
class NoMoreData {
 public:
  NoMoreData() {
    EXPECT_EQ(::getrlimit(RLIMIT_DATA, &before_), 0);
    const rlimit none{kSmallPage, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_DATA, &none), 0);
  }
  ~NoMoreData() { EXPECT_EQ(::setrlimit(RLIMIT_DATA, &before_), 0); }
  NoMoreData(const NoMoreData&) = delete;
  NoMoreData& operator=(const NoMoreData&) = delete;

  // Emulated processes may all the same.
  static bool is_kept() {
    const NoMoreData limit;
    void* data = ::mmap(nullptr, kPart, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data != MAP_FAILED) ::munmap(data, kPart);
    return data == MAP_FAILED;
  }

 private:
  rlimit before_{};
};

// Pages that replace a file's count as data, of which a process may have too much.
TEST_F(DirectWindowTest, WhatCannotBePutInPlaceIsTheFiles) {
  if (conformance::kSanitized) GTEST_SKIP() << "a sanitizer takes data of its own";
  if (!NoMoreData::is_kept()) GTEST_SKIP() << "the system does not limit a process's data";
  make_file(24);
  std::vector<StreamedSegment> segments = part_a_stage(24);
  BP_CREATE_OR_SKIP(window, segments);
  for (int step = 0; step < 3; ++step) {
    for (uint32_t s = 0; s < 24; ++s) {
      const bool is_first = step == 1 && s == 5;
      {
        const auto limit = is_first ? std::make_unique<NoMoreData>() : nullptr;
        window->advance(s);
      }
      const bool is_refused = step > 1 || (step == 1 && s >= 5);
      EXPECT_EQ(is_memory(file_->begin + s * kPart), !is_refused) << step << ", " << s;
      for (const StreamedSegment& segment : part_a_stage(24)) expect_content(*file_, segment);
    }
  }
}

TEST_F(DirectWindowTest, HasRoomForWhatItMayTake) {
  make_file(8);
  std::vector<StreamedSegment> segments = part_a_stage(8);
  EXPECT_EQ(DirectWindow::create(file_, segments, kPart, kPart), nullptr);
  const auto window = DirectWindow::create(file_, segments, kPart, 3 * kPart);
  if (window == nullptr) GTEST_SKIP() << "no reads past the system's cache here";
  EXPECT_LE(window->n_bytes(), 3 * kPart);
  for (uint32_t s = 0; s < 8; ++s) {
    window->advance(s);
    EXPECT_TRUE(is_memory(file_->begin + s * kPart));
    expect_content(*file_, part(s, s, s));
  }
}

TEST_F(DirectWindowTest, TakesNothingWithoutAFileToRead) {
  make_file(2);
  std::vector<StreamedSegment> segments = part_a_stage(2);
  EXPECT_EQ(DirectWindow::create(nullptr, segments, kPart, kMost), nullptr);
  auto closed = std::make_shared<MappedFile>(*file_);
  closed->fd = -1;
  EXPECT_EQ(DirectWindow::create(closed, segments, kPart, kMost), nullptr);
  EXPECT_EQ(segments.size(), 2u);
  std::vector<StreamedSegment> none;
  EXPECT_EQ(DirectWindow::create(file_, none, kPart, kMost), nullptr);
}

}  // namespace
}  // namespace bp::cpu
