// Templates cut short and damaged: whatever they are, parsing and rendering only return.

#include <gtest/gtest.h>

#include <random>

#include "recorded_templates.hpp"

namespace bp::text::jinja {
namespace {

using nlohmann::ordered_json;

ordered_json conversation() {
  return ordered_json::parse(R"({
    "messages": [{"role": "system", "content": "Be terse."}, {"role": "user", "content": "Hi é"},
                 {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type":
                  "function", "function": {"name": "f", "arguments": {"x": [1, 2.5, true]}}}]},
                 {"role": "tool", "content": "{}"}],
    "tools": [{"type": "function", "function": {"name": "f", "description": "d",
               "parameters": {"type": "object", "properties": {"x": {"type": "array"}}}}}],
    "add_generation_prompt": true, "l": [3, 1, 2], "s": "text", "d": {"a": 1}, "n": 5, "b": true})");
}

void try_template(const std::string& source, const ordered_json& variables) {
  RenderOptions options;
  options.fuel = 20'000;
  options.max_output_bytes = 1 << 16;
  options.max_memory_bytes = 4 << 20;
  auto parsed = Template::parse(source);
  if (!parsed.ok()) {
    EXPECT_FALSE(parsed.status().message().empty());
    return;
  }
  const auto result = parsed->render(variables, options);
  EXPECT_TRUE(!result.ok() || result->size() <= options.max_output_bytes);
}

std::string mutate(std::string source, std::mt19937& random) {
  constexpr const char* kParts[] = {"{{",
                                    "}}",
                                    "{%",
                                    "%}",
                                    "-",
                                    "(",
                                    ")",
                                    "[",
                                    "]",
                                    "{",
                                    "}",
                                    "|",
                                    "'",
                                    "\"",
                                    "\\",
                                    ".",
                                    ",",
                                    ":",
                                    "=",
                                    "*",
                                    "**",
                                    "~",
                                    "#}",
                                    "{#",
                                    " if ",
                                    " in ",
                                    " is ",
                                    " not ",
                                    "loop",
                                    "none",
                                    "0",
                                    "99999999",
                                    "\n",
                                    "\xc3",
                                    "\xf0\x9f\x98\x80",
                                    "%}{% endif %}",
                                    "[::-1]"};
  const int edits = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < edits; ++i) {
    const size_t at = random() % (source.size() + 1);
    const size_t n = random() % 12;
    switch (random() % 4) {
      case 0:
        source.erase(at, n);
        break;
      case 1:
        source.insert(at, kParts[random() % std::size(kParts)]);
        break;
      case 2:
        source.insert(at, source.substr(random() % (source.size() + 1), n * 8));
        break;
      default:
        if (at < source.size()) source[at] = static_cast<char>(random());
    }
  }
  return source;
}

TEST(Mutation, DamagedTemplatesOfRealModels) {
  const auto folder = template_folder();
  if (!folder) GTEST_SKIP() << "BACKPLANE_TEST_DATA is not set";
  const auto variables = conversation();
  std::mt19937 random(7);
  for (const auto& [name, source] : recorded_sources(*folder)) {
    SCOPED_TRACE(name);
    for (size_t n = 0; n < source.size(); n += 1 + random() % 97) {
      try_template(source.substr(0, n), variables);
    }
    for (int i = 0; i < 100; ++i) try_template(mutate(source, random), variables);
  }
}

TEST(Mutation, DamagedLanguageCases) {
  const char* root = std::getenv("BACKPLANE_SOURCE_DIR");
  if (!root) GTEST_SKIP() << "BACKPLANE_SOURCE_DIR is not set";
  const auto path = std::filesystem::path(root) / "tests/core/text/jinja" / "language_cases.json";
  const auto document = ordered_json::parse(read_text(path));
  std::mt19937 random(11);
  for (const auto& [group, cases] : document["cases"].items()) {
    for (const auto& row : cases) {
      const std::string source = row[0].get<std::string>();
      for (int i = 0; i < 20; ++i) try_template(mutate(source, random), document["variables"]);
    }
  }
}

}  // namespace
}  // namespace bp::text::jinja
