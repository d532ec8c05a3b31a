#include "core/model/resources.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace bp::model {
namespace {

TEST(ResourcesTest, FoldersOfTheUserComeFirst) {
  ::setenv("BACKPLANE_ARCHITECTURES", "/mine::/theirs", 1);
  const ResourceFolders folders = default_resource_folders();
  ::unsetenv("BACKPLANE_ARCHITECTURES");
  ASSERT_EQ(folders.architectures.size(), 3u);
  EXPECT_EQ(folders.architectures[0], "/mine");
  EXPECT_EQ(folders.architectures[1], "/theirs");
}

TEST(ResourcesTest, SourceTreeWhereNotInstalled) {
  const ResourceFolders folders = default_resource_folders();
  ASSERT_EQ(folders.architectures.size(), 1u);
  EXPECT_TRUE(std::filesystem::exists(folders.architectures[0] + "/llama.yaml"));
  EXPECT_TRUE(std::filesystem::exists(folders.ops + "/attention.yaml"));
}

}  // namespace
}  // namespace bp::model
