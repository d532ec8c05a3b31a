#include "core/base/read_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/base/yaml.hpp"
#include "sdk/conformance/support/temporary_folder.hpp"

namespace bp::base {
namespace {

using ::testing::HasSubstr;

class ReadFile : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_.path() / name).string();
  }
  std::string file(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  [[nodiscard]] std::string fifo() const {
    EXPECT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
    return path("fifo");
  }
  static std::string error_of(const std::string& path, uint64_t limit) {
    return read_file(path, limit).status().message();
  }

  conformance::TemporaryFolder folder_{"read-file"};
};

TEST_F(ReadFile, GivesAllBytesUpToTheLimit) {
  const std::string bytes(3 << 20, '\0');
  const auto read = read_file(file("zeros", bytes), bytes.size());
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, bytes);
  EXPECT_EQ(*read_file(file("none", ""), 0), "");
  EXPECT_THAT(error_of(path("zeros"), bytes.size() - 1),
              HasSubstr(path("zeros") + ": larger than 2 MiB"));
}

TEST_F(ReadFile, EndsWhereAFileHasNoEnd) {
  EXPECT_THAT(error_of("/dev/zero", 5 << 20), HasSubstr("/dev/zero: larger than 5 MiB"));
  EXPECT_THAT(Yaml::load_file("/dev/zero").status().message(),
              HasSubstr("/dev/zero: larger than 4 MiB"));
}

TEST_F(ReadFile, NamesWhatCannotBeRead) {
  EXPECT_THAT(error_of(path("nowhere"), 1), HasSubstr(path("nowhere") + ": cannot be opened: No"));
  EXPECT_THAT(error_of(path(""), 1), HasSubstr("is a folder"));
}

TEST_F(ReadFile, DoesNotWaitForAPipeThatNobodyWritesTo) {
  const std::string name = fifo();
  EXPECT_THAT(error_of(name, 1), HasSubstr(name + ": is a pipe that nobody writes to"));
}

TEST_F(ReadFile, WaitsForAWriterWhoIsSlow) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::thread writer([&] {
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(::write(ends[1], "ab", 2), 2);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    ::close(ends[1]);
  });
  const auto read = read_file("/dev/fd/" + std::to_string(ends[0]), 6);
  writer.join();
  ::close(ends[0]);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, "ababab");
}

TEST_F(ReadFile, RegularFilesAreToldFromOthers) {
  EXPECT_TRUE(expect_regular_file(file("a", "b")).ok());
  EXPECT_TRUE(expect_regular_file(path("nowhere")).ok());
  const std::string pipe = fifo();
  for (const std::string& name : {pipe, std::string("/dev/zero"), path("")}) {
    EXPECT_EQ(expect_regular_file(name).message(), name + ": not a regular file");
  }
}

TEST(YamlText, NestedTooDeeplySaysSo) {
  const auto read = Yaml::load_text(std::string(100'000, '['), "deep.yaml");
  EXPECT_THAT(read.status().message(), HasSubstr("deep.yaml:1:"));
  EXPECT_THAT(read.status().message(), HasSubstr("maps and lists stand too deep in one another"));
}

}  // namespace
}  // namespace bp::base
