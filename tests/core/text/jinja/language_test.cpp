// The language against what jinja2 answered; language_cases.json is the table.

#include <gmock/gmock.h>

#include <cctype>
#include <cstdlib>

#include "recorded_templates.hpp"

namespace bp::text::jinja {
namespace {

using nlohmann::ordered_json;

Result<std::string> render(const std::string& source, const ordered_json& variables = {{"n", 5}}) {
  auto parsed = Template::parse(source);
  if (!parsed.ok()) return parsed.status();
  RenderOptions options;
  options.now = recorded_clock();
  return parsed->render(variables, options);
}

ordered_json language_cases() {
  const char* root = std::getenv("BACKPLANE_SOURCE_DIR");
  if (!root) return nullptr;
  const std::filesystem::path folder = std::filesystem::path(root) / "tests/core/text/jinja";
  return ordered_json::parse(read_text(folder / "language_cases.json"));
}

TEST(Language, AgreesWithJinja2) {
  const ordered_json document = language_cases();
  if (document.is_null()) GTEST_SKIP() << "BACKPLANE_SOURCE_DIR is not set";
  for (const auto& [group, cases] : document["cases"].items()) {
    ASSERT_FALSE(cases.empty());
    for (const auto& row : cases) {
      const auto result = render(row[0].get<std::string>(), document["variables"]);
      SCOPED_TRACE(group + ": " + row[0].dump());
      if (row[1].is_null()) {
        EXPECT_FALSE(result.ok()) << *result;
      } else if (result.ok()) {
        EXPECT_EQ(*result, row[1].get<std::string>());
      } else {
        ADD_FAILURE() << result.status().message();
      }
    }
  }
}

// Filters and globals that are refused, each with its reason.
constexpr std::string_view kLeftOut[] = {"lipsum", "pprint", "random", "urlize"};

// Whether a part of the cases is this, and no longer name nor the end of one.
bool has_name(const std::string& cases, const std::string& part) {
  const auto goes_on = [&](size_t at, char name) {
    const auto is_word = [](char c) { return std::isalnum(static_cast<uint8_t>(c)) || c == '_'; };
    return is_word(cases[at]) && is_word(name);
  };
  for (size_t at = cases.find(part); at != std::string::npos; at = cases.find(part, at + 1)) {
    const bool is_end = at > 0 && goes_on(at - 1, part.front());
    if (!is_end && !goes_on(at + part.size(), part.back())) return true;
  }
  return false;
}

// All that jinja2 has is here, has a case, or is refused by name.
TEST(Language, HasTheBuiltinsOfJinja2) {
  const ordered_json document = language_cases();
  if (document.is_null()) GTEST_SKIP() << "BACKPLANE_SOURCE_DIR is not set";
  std::string cases;
  for (const auto& [group, rows] : document["cases"].items()) {
    for (const auto& row : rows) cases += row[0].get<std::string>() + '\n';
  }
  const auto is_tried = [&](const std::string& kind, const std::string& name) {
    const std::vector<std::string> begins =
        kind == "filters" ? std::vector<std::string>{"|", "| ", "filter ", "map('", "map(\""}
        : kind == "tests" ? std::vector<std::string>{"is ",      "is not ",           "select('",
                                                     "reject('", "selectattr('n', '", "', '"}
                          : std::vector<std::string>{""};
    return std::ranges::any_of(begins, [&](const std::string& begin) {
      return has_name(cases, begin + name + (kind == "globals" ? "(" : ""));
    });
  };
  for (const auto& [kind, names] : document["builtins"].items()) {
    EXPECT_FALSE(names.empty());
    for (const std::string name : names) {
      if (std::ranges::count(kLeftOut, name) > 0) {
        const std::string use = kind == "filters" ? "{{ l|" + name + " }}" : "{{ " + name + "() }}";
        const auto result = render(use, document["variables"]);
        EXPECT_THAT(result.status().message(), ::testing::HasSubstr("not supported")) << name;
        continue;
      }
      EXPECT_TRUE(is_tried(kind, name)) << "no case for " << name << " of " << kind;
      const std::string use = kind == "filters" ? "{{ '" + name + "' is filter }}"
                              : kind == "tests" ? "{{ '" + name + "' is test }}"
                                                : "{{ " + name + " is defined }}";
      const auto result = render(use, document["variables"]);
      ASSERT_TRUE(result.ok()) << result.status().message();
      EXPECT_EQ(*result, "True") << name;
    }
  }
}

// jinja2's sandbox forbids methods that change a list or dict; templates in the wild use them.
TEST(Language, ListsAndDictsChangeInPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"{% set l = [1] %}{% set _ = l.append(2) %}{{ l }}", "[1, 2]"},
      {"{% set l = [1] %}{{ l.extend((2, 3)) }}{{ l }}", "None[1, 2, 3]"},
      {"{% set l = [1, 3] %}{% set _ = l.insert(1, 2) %}{% set _ = l.insert(-9, 0) %}{{ l }}",
       "[0, 1, 2, 3]"},
      {"{% set l = [1, 2, 3] %}{{ l.pop() }}{{ l.pop(0) }}{{ l }}", "31[2]"},
      {"{% set l = [2, 1] %}{% set _ = l.sort() %}{% set _ = l.remove(1) %}{{ l }}", "[2]"},
      {"{% set d = {'a': 1} %}{% set _ = d.update(b=2) %}{{ d.pop('a') }}{{ d }}", "1{'b': 2}"},
      {"{% set d = {} %}{{ d.setdefault('a', []).append(1) }}{{ d }}", "None{'a': [1]}"},
      {"{% for i in range(40) %}{% set _ = d.update({i: i}) %}{% endfor %}{{ d.pop(7) }}"
       "{{ d|length }}{{ d[39] }}{{ d[7] is defined }}",
       "73939False"},
  };
  for (const auto& [source, expected] : cases) {
    const auto result = render(source, {{"d", ordered_json::object()}});
    ASSERT_TRUE(result.ok()) << source << ": " << result.status().message();
    EXPECT_EQ(*result, expected) << source;
  }
}

struct Failure {
  const char* source;
  Code code;
  const char* message;
};

TEST(Language, ErrorsSayWhatAndWhere) {
  const Failure failures[] = {
      {"a\n{{ raise_exception('Bad ' ~ n) }}", Code::kInvalidArgument, "Bad 5"},
      {"a\n\n{{ x.y }}", Code::kUnsupported, "line 3: 'x' is undefined"},
      {"{{ n.y.z }}", Code::kUnsupported, "line 1: 'int object' has no attribute 'y'"},
      {"{{ [][1].z }}", Code::kUnsupported, "line 1: list object has no element 1"},
      {"\n{{ 'a' + n }}", Code::kUnsupported,
       "line 2: can only concatenate str (not \"int\") to str"},
      {"{% macro f() %}\n{{ n.x.y }}{% endmacro %}\n\n{{ f() }}", Code::kUnsupported,
       "line 2: 'int object' has no attribute 'x'"},
      {"{{ n|zz }}", Code::kUnsupported, "line 1: No filter named 'zz'."},
      {"\n{% if %}", Code::kInvalidArgument, "line 2: unexpected end of the statement"},
      {"{% if n %}\n", Code::kInvalidArgument, "line 1: the 'if' block is not closed"},
      {"\n{{ 'a }}", Code::kInvalidArgument, "line 2: the string is not closed"},
      {"{{ (1] }}", Code::kInvalidArgument, "line 1: unexpected ']', expected ')'"},
      {"{% frob %}", Code::kInvalidArgument, "line 1: unknown tag 'frob'"},
      {"{% if n %}{% include 'x' %}{% endif %}", Code::kInvalidArgument,
       "line 1: 'include' needs other templates; a chat has this one"},
      {"{% from 'x' import y %}", Code::kInvalidArgument,
       "line 1: 'from' needs other templates; a chat has this one"},
      {"{% autoescape true %}{% endautoescape %}", Code::kInvalidArgument,
       "line 1: 'autoescape' is for web pages, and not supported"},
      {"{{ l|random }}", Code::kUnsupported,
       "line 1: the filter 'random' is not supported: a prompt does not depend on chance"},
      {"{{ lipsum() }}", Code::kUnsupported,
       "line 1: lipsum() is not supported: a prompt does not depend on chance"},
      {"\xff", Code::kInvalidArgument, "the template is not valid UTF-8"},
  };
  for (const Failure& failure : failures) {
    const auto result = render(failure.source);
    ASSERT_FALSE(result.ok()) << failure.source << ": " << *result;
    EXPECT_EQ(result.status().code(), failure.code) << failure.source;
    EXPECT_EQ(result.status().message(), failure.message) << failure.source;
  }
}

TEST(Language, VariablesMustBeAnObjectOfValidText) {
  const auto not_object = render("x", ordered_json::array());
  EXPECT_EQ(not_object.status().code(), Code::kInvalidArgument);
  const auto bad_text = render("{{ t }}", {{"t", "a\xff"}});
  EXPECT_EQ(bad_text.status().code(), Code::kUnsupported);
}

TEST(Language, ATemplateRendersTheSameTwice) {
  auto parsed = Template::parse("{% set l = [] %}{% set _ = l.append(n) %}{{ l }}");
  ASSERT_TRUE(parsed.ok());
  const ordered_json variables = {{"n", 5}};
  EXPECT_EQ(*parsed->render(variables, {}), "[5]");
  EXPECT_EQ(*parsed->render(variables, {}), "[5]");
}

}  // namespace
}  // namespace bp::text::jinja
