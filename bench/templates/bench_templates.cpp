// bench_templates < LINES    LINES: [TEMPLATE, VARIABLES] in JSON each; gives a line each: what the
// template renders to as a JSON string, or {"error": TEXT}. The clock stands at
// 2026-01-15T12:00:00.

#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include "core/text/chat_template.hpp"
#include "core/text/jinja/template.hpp"

namespace {

using nlohmann::ordered_json;

bp::Result<std::string> render(const ordered_json& line, const bp::text::jinja::RenderOptions& o) {
  BP_ASSIGN(const auto parsed, bp::text::jinja::Template::parse(line.at(0).get<std::string>()));
  return parsed.render(line.at(1), o);
}

}  // namespace

int main() {
  const auto clock = bp::text::parse_clock("2026-01-15T12:00:00");
  if (!clock.ok()) return 1;
  bp::text::jinja::RenderOptions options;
  options.now = *clock;
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    const auto text = render(ordered_json::parse(line), options);
    const ordered_json shown =
        text.ok() ? ordered_json(*text) : ordered_json{{"error", text.status().message()}};
    std::cout << shown.dump() << '\n';
  }
}
