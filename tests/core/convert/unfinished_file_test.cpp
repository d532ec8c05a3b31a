#include "core/convert/unfinished_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "backplane/file_descriptor.hpp"
#include "sdk/conformance/support/temporary_folder.hpp"

namespace bp::convert {
namespace {

class UnfinishedFileTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_.path() / name).string();
  }
  void write(const std::string& name) const { std::ofstream(path(name)) << "half"; }
  [[nodiscard]] static std::string partial_of(pid_t process) {
    return "out.partial-" + std::to_string(process);
  }
  [[nodiscard]] static std::string own_partial() { return partial_of(::getpid()); }
  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }

  const conformance::TemporaryFolder folder_{"unfinished"};
};

TEST_F(UnfinishedFileTest, GetsItsNameOnceItIsWhole) {
  for (const bool whole : {false, true}) {
    auto file = UnfinishedFile::create(path("out"));
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ(names(), std::set{own_partial()});
    EXPECT_EQ(std::fputs("text", file->get()), 1);
    EXPECT_TRUE(!whole || file->finish().ok());
    { const auto gone = std::move(file); }
    EXPECT_EQ(names(), whole ? std::set<std::string>{"out"} : std::set<std::string>{});
  }
  EXPECT_EQ(std::filesystem::file_size(path("out")), 4u);
}

TEST_F(UnfinishedFileTest, ItsPlaceIsKnownBeforehand) {
  EXPECT_TRUE(expect_file_place(path("out")).ok());
  EXPECT_TRUE(expect_file_place("here").ok());
  write("out");
  EXPECT_TRUE(expect_file_place(path("out")).ok());
  EXPECT_EQ(expect_file_place(path("nowhere/out")).message(),
            path("nowhere/out") + " cannot be written: No such file or directory");
  EXPECT_EQ(expect_file_place(path("out/in")).message(),
            path("out/in") + " cannot be written: Not a directory");
  EXPECT_EQ(expect_file_place(path("")).message(),
            path("") + " is no regular file; give the name of a file to write");
}

// Whoever still writes one has locked it.
TEST_F(UnfinishedFileTest, WhatAKilledProcessLeftIsRemoved) {
  const std::set<std::string> kept = {"out.partial-2", "out.part", "other.partial-1", "out"};
  for (const std::string& name : kept) write(name);
  for (const char* name : {"out.partial-1", "out.partial-3"}) write(name);
  write(own_partial());  // of an earlier process with this one's number
  const FileDescriptor other{::open(path("out.partial-2").c_str(), O_RDONLY)};
  ASSERT_EQ(::flock(other.fd, LOCK_EX), 0);
  { const auto file = UnfinishedFile::create(path("out")); }
  EXPECT_EQ(names(), kept);
}

TEST_F(UnfinishedFileTest, IsLockedWhileItIsWritten) {
  const auto file = UnfinishedFile::create(path("out"));
  const FileDescriptor other{::open(path(own_partial()).c_str(), O_RDONLY)};
  EXPECT_EQ(::flock(other.fd, LOCK_EX | LOCK_NB), -1);
}

// As a program's first thread does it.
void write_until(int signal, const std::string& earlier, const std::string& path) {
  remove_unfinished_on_signals();
  { const auto file = UnfinishedFile::create(earlier); }
  const auto file = UnfinishedFile::create(path);
  if (file.ok()) std::raise(signal);
  std::exit(7);
}

TEST_F(UnfinishedFileTest, SignalsRemoveItAndEndTheProcessAsEver) {
  ::testing::FLAGS_gtest_death_test_style = "fast";  // in this test's folder
  write("out");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EXIT(
        {
          std::signal(signal, SIG_DFL);
          write_until(signal, path("earlier"), path("out"));
        },
        ::testing::KilledBySignal(signal), "");
    EXPECT_EQ(names(), std::set<std::string>{"out"});
  }
}

TEST_F(UnfinishedFileTest, SignalsRemoveItAsSoonAsItIsThere) {
  for (int round = 0; round < 200; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      std::signal(SIGTERM, SIG_DFL);
      remove_unfinished_on_signals();
      const auto file = UnfinishedFile::create(path("out"));
      ::pause();
      ::_exit(0);
    }
    const std::string partial = path(partial_of(child));
    while (::access(partial.c_str(), F_OK) != 0 && ::waitpid(child, nullptr, WNOHANG) == 0) {
    }
    ::kill(child, SIGTERM);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    ASSERT_EQ(names(), std::set<std::string>{}) << round;
  }
}

TEST_F(UnfinishedFileTest, SignalsThatAreIgnoredStayIgnored) {
  ::testing::FLAGS_gtest_death_test_style = "fast";
  EXPECT_EXIT(
      {
        std::signal(SIGHUP, SIG_IGN);
        write_until(SIGHUP, path("earlier"), path("out"));
      },
      ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace bp::convert
