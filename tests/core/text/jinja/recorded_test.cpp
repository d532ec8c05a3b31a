#include <gtest/gtest.h>

#include "recorded_templates.hpp"

namespace bp::text {
namespace {

using nlohmann::ordered_json;

ordered_json variables_of(const ordered_json& row) {
  ordered_json request = row;
  for (const char* answer : {"text", "error", "message"}) request.erase(answer);
  return request;
}

void expect_as_recorded(const ChatTemplate& chat, const ordered_json& row) {
  const auto result = chat.render(variables_of(row), recorded_clock());
  if (!row.contains("error")) {
    ASSERT_TRUE(result.ok()) << result.status().message();
    EXPECT_EQ(*result, row["text"].get<std::string>());
    return;
  }
  ASSERT_FALSE(result.ok()) << *result;
  if (row.contains("message")) {
    EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
    EXPECT_EQ(result.status().message(), row["message"].get<std::string>());
  }
}

TEST(RecordedTemplates, RenderExactlyAsRecorded) {
  const auto folder = template_folder();
  if (!folder) GTEST_SKIP() << "BACKPLANE_TEST_DATA is not set";
  const auto expected = ordered_json::parse(read_text(*folder / "expected.json"));
  ASSERT_FALSE(expected.empty());
  for (const auto& [name, rows] : expected.items()) {
    auto chat = ChatTemplate::create(read_text(*folder / (name + ".jinja")), recorded_tokens());
    ASSERT_TRUE(chat.ok()) << name << ": " << chat.status().message();
    for (size_t i = 0; i < rows.size(); ++i) {
      SCOPED_TRACE(name + ", case " + std::to_string(i));
      expect_as_recorded(*chat, rows[i]);
    }
  }
}

}  // namespace
}  // namespace bp::text
