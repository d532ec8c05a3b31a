#include "core/model/expression.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace bp::model {
namespace {

class TestScope : public Scope {
 public:
  [[nodiscard]] std::optional<Value> find(std::string_view name) const override {
    const auto it = values.find(name);
    return it == values.end() ? std::nullopt : std::optional(it->second);
  }
  [[nodiscard]] std::optional<Value> query(std::string_view function,
                                           std::string_view name) const override {
    if (function != "has" || !(name == "bias" || name == "up")) return std::nullopt;
    return Value(name == "bias");
  }

  std::map<std::string, Value, std::less<>> values = {
      {"dim", int64_t{64}},
      {"eps", 0.5},
      {"act", std::string("silu")},
      {"on", true},
      {"absent", Value()},
      {"zero", int64_t{0}},
      {"heads", List{int64_t{8}, int64_t{4}, int64_t{2}}},
      {"big", int64_t{INT64_MAX}},
      {"low", int64_t{INT64_MIN}}};
};

std::string evaluated(const std::string& text) {
  const auto expression = Expression::parse(text);
  if (!expression.ok()) return expression.status().message();
  const auto value = expression->evaluate(TestScope());
  return value.ok() ? value->text() : value.status().message();
}

TEST(ExpressionTest, Values) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"1 + 2 * 3", "7"},
      {"(1 + 2) * 3", "9"},
      {"7 // 2", "3"},
      {"-7 // 2", "-4"},
      {"7 // -2", "-4"},
      {"-7 % 2", "1"},
      {"7 % -2", "-1"},
      {"6 / 4", "1.5"},
      {"4 / 2 == 2", "true"},
      {"7.5 // 2", "3"},
      {"7.5 % 2.0", "1.5"},
      {"1e3", "1000"},
      {"- - 2", "2"},
      {"10 - 3 - 2", "5"},
      {"dim // heads[0]", "8"},
      {"heads[1 + 1]", "2"},
      {"len(heads)", "3"},
      {"max(heads)", "8"},
      {"min(3, 2.5, 4)", "2.5"},
      {"abs(-3)", "3"},
      {"sqrt(dim)", "8"},
      {"floor(exp(log(dim)) + 0.5)", "64"},
      {"floor(2.75)", "2"},
      {"log(1)", "0"},
      {"contains(heads, 8)", "true"},
      {"contains(heads, 9)", "false"},
      {"floor(-0.5)", "-1"},
      {"1 if on else 2", "1"},
      {"1 if not on else 2 if dim == 64 else 3", "2"},
      {"on and not (dim < 64 or dim > 64)", "true"},
      {"dim >= 64 and dim <= 64", "true"},
      {"act == \"silu\"", "true"},
      {"act != \"gelu\"", "true"},
      {"absent == none", "true"},
      {"has(bias) and not has(up)", "true"},
      {"true or 1 // 0 == 1", "true"},
      {"false and missing", "false"},
      {"1 if true else missing", "1"},
      {"\"a\" + 1 if false else \"b\"", "\"b\""},
      {"9223372036854775807", "9223372036854775807"},
      {" \n dim", "64"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(evaluated(text), expected) << text;
}

TEST(ExpressionTest, ErrorsNameColumnAndReason) {
  const std::vector<std::pair<std::string, const char*>> cases = {
      {"", "column 1 of ``: ends too early"},
      {"1 +", "column 4 of `1 +`: ends too early"},
      {"1 + * 2", "column 5 of `1 + * 2`: unexpected '*'"},
      {"(1", "column 3 of `(1`: expected ')'"},
      {"1 2", "column 3 of `1 2`: unexpected '2'"},
      {"1 if on", "expected 'else'"},
      {"1 < 2 < 3", "column 7 of `1 < 2 < 3`: unexpected '<'"},
      {"\"open", "column 1 of `\"open`: a string without its closing quote"},
      {"12abc", "not a number"},
      {"99999999999999999999", "a number out of range"},
      {"1e999", "a number out of range"},
      {"if", "unexpected 'if'"},
      {"dim + missing", "column 7 of `dim + missing`: unknown name 'missing'"},
      {"has(gate)", "cannot tell has(gate)"},
      {"round(2.5)", "unknown function 'round'"},
      {"has(1)", "unknown function 'has'"},
      {"len(dim)", "len of a int"},
      {"max()", "max of nothing"},
      {"max(act)", "max needs numbers"},
      {"dim[0]", "column 4 of `dim[0]`: a int has no elements"},
      {"heads[3]", "index 3 of a list of 3 elements"},
      {"heads[-1]", "index -1 of a list of 3 elements"},
      {"heads[0.0]", "index 0 of a list"},
      {"1 // zero", "column 3 of `1 // zero`: division by zero"},
      {"1 / 0", "division by zero"},
      {"1 % 0", "division by zero"},
      {"big + 1", "the result is out of range"},
      {"low - 1", "the result is out of range"},
      {"big * 2", "the result is out of range"},
      {"low // -1", "the result is out of range"},
      {"-low", "the result is out of range"},
      {"1e308 * 10", "the result is not finite"},
      {"sqrt(-1)", "the result is not finite"},
      {"exp(1000)", "the result is not finite"},
      {"log(0)", "the result is not finite"},
      {"floor(1e300)", "the result is out of range"},
      {"act + 1", "column 1 of `act + 1`: needs a number, found \"silu\" (string)"},
      {"1 if dim else 2", "needs a bool, found 64 (int)"},
      {"not 1", "needs a bool"},
      {std::string(100, '(') + "1" + std::string(100, ')'), "nested too deeply"},
      {std::string(100, '-') + "1", "nested too deeply"},
      {std::string(3000, '1'), "longer than 2000 characters"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_THAT(evaluated(text), ::testing::HasSubstr(expected)) << text;
  }
  std::string chain = "1";
  for (int i = 0; i < 100; ++i) chain += "+1";
  EXPECT_THAT(evaluated(chain), ::testing::HasSubstr("too many operators in a row"));
}

TEST(ExpressionTest, TypedResults) {
  const TestScope scope;
  EXPECT_EQ(*Expression::parse("dim + 1")->integer(scope), 65);
  EXPECT_EQ(*Expression::parse("dim")->number(scope), 64.0);
  EXPECT_TRUE(*Expression::parse("on")->condition(scope));
  EXPECT_EQ(Expression::parse("eps")->integer(scope).status().message(),
            "column 1 of `eps`: expected an integer, found 0.5 (float)");
  EXPECT_FALSE(Expression::parse("act")->number(scope).ok());
  EXPECT_FALSE(Expression::parse("1")->condition(scope).ok());
}

}  // namespace
}  // namespace bp::model
