// Which versions of the ABI load, with versions that are not this program's too.

#include "core/plugin/compatibility.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bp::plugin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Compatibility, OfMajor0NeedsTheSameMinor) {
  EXPECT_EQ(why_incompatible({0, 3}, {0, 3}), "");
  for (const uint32_t minor : {0u, 2u, 4u}) {
    EXPECT_THAT(why_incompatible({0, minor}, {0, 3}),
                AllOf(HasSubstr("built for ABI 0." + std::to_string(minor)),
                      HasSubstr("this program has 0.3"), HasSubstr("build the plugin again")));
  }
}

TEST(Compatibility, From1OnEveryMinorOfTheMajorLoads) {
  for (const uint32_t minor : {0u, 1u, 7u, 99u}) {
    EXPECT_EQ(why_incompatible({1, minor}, {1, 7}), "");
    EXPECT_EQ(why_incompatible({2, minor}, {2, 0}), "");
  }
}

TEST(Compatibility, AnotherMajorNeverLoads) {
  for (const AbiVersion plugin : {AbiVersion{0, 7}, AbiVersion{2, 0}, AbiVersion{2, 7}}) {
    EXPECT_THAT(why_incompatible(plugin, {1, 7}),
                AllOf(HasSubstr("built for ABI"), HasSubstr("this program has 1.7")));
  }
}

}  // namespace
}  // namespace bp::plugin
