// backplane-conform: what a plugin must pass.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "sdk/conformance/levels/levels.hpp"
#include "sdk/conformance/report.hpp"
#include "sdk/conformance/resources.hpp"
#include "sdk/conformance/runner.hpp"
#include "sdk/conformance/subject.hpp"

namespace {

using namespace bp::conformance;

struct Arguments {
  std::string plugin;
  std::vector<std::string> levels, names;
  Options options;
  double time_scale = 1;
  bool json = false, list = false, only_failed = false, in_process = false;
};

std::vector<std::string> level_names() {
  std::vector<std::string> names;
  for (const Level& level : all_levels()) names.emplace_back(level.name);
  return names;
}

std::string level_help() {
  std::string text = "Levels (those of the plugin's kinds run):";
  for (const Level& level : all_levels()) {
    text += "\n  " + std::string(level.name);
    text.append(12 - level.name.size(), ' ');
    text += level.description;
  }
  return text;
}

void add_common_options(CLI::App& app, Arguments& arguments) {
  app.add_option("plugin", arguments.plugin, "The manifest: PATH/NAME.plugin.yaml")
      ->type_name("PLUGIN.plugin.yaml");
  app.add_option("--model", arguments.options.model,
                 "A model file (default: the small one that comes with this tool)");
  app.add_option("--seed", arguments.options.seed, "Of random test data")->capture_default_str();
  app.add_option("--set", arguments.options.set, "KEY=VALUE of the plugin's configuration")
      ->allow_extra_args(false);
}

void add_run_options(CLI::App& app, Arguments& arguments) {
  app.add_option("--level", arguments.levels, "Only tests of this level; may be given again")
      ->check(CLI::IsMember(level_names()))
      ->allow_extra_args(false);
  app.add_option("--test", arguments.names, "Only the test of this name; may be given again")
      ->allow_extra_args(false);
  app.add_flag("--json", arguments.json, "Print one JSON document");
  app.add_flag("--list", arguments.list, "Print the tests, run none");
  app.add_flag("--only-failed", arguments.only_failed, "Print nothing of tests that pass or skip");
  app.add_option("--time-scale", arguments.time_scale,
                 "Multiplies the time that each test may take; raise it for slow devices")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--in-process", arguments.in_process,
               "Run tests in this process, for debuggers: a crash ends the tool");
}

template <class T>
bool is_wanted(const std::vector<std::string>& wanted, const T& name) {
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end();
}

std::chrono::milliseconds scaled(std::chrono::milliseconds time, const Arguments& arguments) {
  return std::chrono::milliseconds(
      std::llround(static_cast<double>(time.count()) * arguments.time_scale));
}

Tests chosen_tests(const Arguments& arguments, Subject& subject) {
  Tests tests;
  for (const Level& level : all_levels()) {
    const bool suits = level.kind.empty() || subject.manifest().has_kind(level.kind);
    if (suits && is_wanted(arguments.levels, level.name)) level.add(subject, tests);
  }
  std::erase_if(tests, [&](const Test& test) { return !is_wanted(arguments.names, test.name); });
  for (Test& test : tests) test.timeout = scaled(test.timeout, arguments);
  return tests;
}

// Where the library itself does not load, only the level that says so is worth running.
TestResult try_to_load(const Arguments& arguments, Subject& subject) {
  const Test load{"", "", "", [](Subject& s) { (void)s.plugin(); },
                  scaled(std::chrono::seconds(30), arguments)};
  return arguments.in_process ? run_here(load, subject) : run_apart(load, subject);
}

int run(const Arguments& arguments, Subject& subject) {
  const Format format = arguments.json ? Format::kJson : Format::kText;
  const Tests tests = chosen_tests(arguments, subject);
  if (arguments.list) {
    print_list(subject.manifest().id, tests, format);
    return 0;
  }
  const TestResult loaded = try_to_load(arguments, subject);
  if (loaded.outcome != Outcome::kPass) std::fprintf(stderr, "%s\n", loaded.message.c_str());
  Report report(subject.manifest().id, format, arguments.only_failed);
  for (const Test& test : tests) {
    if (loaded.outcome != Outcome::kPass && test.level != "load") {
      report.add(test, {Outcome::kSkip, "the plugin does not load: " + loaded.message});
      continue;
    }
    report.add(test, arguments.in_process ? run_here(test, subject) : run_apart(test, subject));
  }
  return report.finish();
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app(
      "Tests a Backplane plugin against the rules of its kind.\n"
      "Exit code: 0 if tests ran and none failed, 2 for a wrong command line, else 1.");
  app.footer(level_help());
  app.require_subcommand(0, 1);
  add_common_options(app, arguments);
  add_run_options(app, arguments);
  CLI::App* const bisect_command =
      app.add_subcommand("bisect", "Name the first op of a model at which a backend goes wrong");
  add_common_options(*bisect_command, arguments);
  try {
    app.parse(argc, argv);
    if (arguments.plugin.empty()) throw CLI::RequiredError("PLUGIN.plugin.yaml");
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  arguments.options.backplane = backplane_program();
  auto subject = Subject::open(arguments.plugin, arguments.options);
  if (!subject.ok()) {
    std::fprintf(stderr, "error: %s\n", subject.status().message().c_str());
    return 1;
  }
  return bisect_command->parsed() ? bisect(**subject) : run(arguments, **subject);
}
