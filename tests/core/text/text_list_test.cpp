#include "core/text/text_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bp::text {
namespace {

using ::testing::ElementsAre;

TEST(TextList, KeepsTextsByIndex) {
  TextList list = {"one", "", std::string_view("a\0b", 3)};
  list.push_back("four");
  EXPECT_EQ(list.size(), 4u);
  EXPECT_EQ(list.n_bytes(), 10u);
  EXPECT_EQ(list[2].size(), 3u);
  EXPECT_EQ(list[3], "four");
  EXPECT_TRUE(TextList().empty());
}

TEST(TextList, SetsTextsInAnyOrder) {
  TextList list;
  list.resize(3);
  list.set(2, "two");
  list.set(0, "zero");
  list.set(2, "a longer two");
  EXPECT_THAT(std::vector<std::string>(list.begin(), list.end()),
              ElementsAre("zero", "", "a longer two"));
}

TEST(TextList, IsEmptyOnceCleared) {
  TextList list = {"one", "two"};
  list.clear();
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.n_bytes(), 0u);
  list.push_back("three");
  EXPECT_EQ(list[0], "three");
}

TEST(TextList, TakesATextOfItsOwn) {
  TextList list = {"a text that is moved when the list grows"};
  for (int i = 0; i < 100; ++i) list.push_back(list[0]);
  for (const std::string_view text : list) {
    EXPECT_EQ(text, "a text that is moved when the list grows");
  }
}

TEST(TextList, IsCopiedWithItsTexts) {
  TextList copy;
  {
    const TextList list = {"one", "two"};
    copy = list;
  }
  EXPECT_EQ(copy[1], "two");
}

}  // namespace
}  // namespace bp::text
