#include "backplane/expression.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bp {
namespace {

ExpressionScope scope() {
  return {[](std::string_view name) -> std::optional<ExpressionValue> {
            if (name == "n") return 7.0;
            if (name == "half") return 0.5;
            if (name == "kind") return std::string("rms");
            return std::nullopt;
          },
          [](std::string_view slot) { return slot == "bias"; }};
}

double number(const char* text) {
  const auto value = Expression::number(text, scope());
  EXPECT_TRUE(value.ok()) << text << ": " << value.status().message();
  return value.ok() ? *value : -12345;
}

TEST(Expression, Arithmetic) {
  EXPECT_EQ(number("1 + 2 * 3 - 4"), 3);
  EXPECT_EQ(number("(1 + 2) * 3"), 9);
  EXPECT_EQ(number("7 / 2"), 3.5);
  EXPECT_EQ(number("n // 2"), 3);
  EXPECT_EQ(number("-7 // 2"), -4);
  EXPECT_EQ(number("-7 % 3"), 2);
  EXPECT_EQ(number("2*n*half"), 7);
  EXPECT_EQ(number("1.5e2 - --1"), 149);
}

TEST(Expression, ConditionsAndStrings) {
  EXPECT_EQ(number("n > 6 and not n == 8"), 1);
  EXPECT_EQ(number("n < 6 or n <= 6"), 0);
  EXPECT_EQ(number("n >= 7 and n != 7"), 0);
  EXPECT_EQ(number("kind == \"rms\""), 1);
  EXPECT_EQ(number("kind != \"rms\""), 0);
  EXPECT_EQ(number("1 if has(bias) else 2"), 1);
  EXPECT_EQ(number("1 if has(other) else 2 if false else 3"), 3);
  EXPECT_EQ(number("not not true"), 1);
}

TEST(Expression, ErrorsNameTheExpressionAndTheReason) {
  const auto error = [](const char* text) {
    const auto value = Expression::evaluate(text, scope());
    EXPECT_FALSE(value.ok()) << text;
    return value.status().message();
  };
  EXPECT_EQ(error("n + m"), "expression \"n + m\": unknown name \"m\"");
  EXPECT_THAT(error("1 +"), testing::HasSubstr("ends too early"));
  EXPECT_THAT(error("1 2"), testing::HasSubstr("unexpected \"2\""));
  EXPECT_THAT(error("(1"), testing::HasSubstr("expected \")\""));
  EXPECT_THAT(error("n // 0"), testing::HasSubstr("division by zero"));
  EXPECT_THAT(error("kind + 1"), testing::HasSubstr("a string stands"));
  EXPECT_THAT(error("\"rms"), testing::HasSubstr("closing quote"));
  EXPECT_THAT(error("1 if n"), testing::HasSubstr("expected \"else\""));
  EXPECT_THAT(error("$"), testing::HasSubstr("unexpected"));
  EXPECT_THAT(error(std::string(1000, '(').c_str()), testing::HasSubstr("nested too deeply"));
}

}  // namespace
}  // namespace bp
