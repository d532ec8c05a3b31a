// The test model's greedy text, by the `backplane` beside this tool with the plugin as its backend.

#include <fstream>
#include <nlohmann/json.hpp>

#include "sdk/conformance/levels/levels.hpp"
#include "sdk/conformance/resources.hpp"
#include "sdk/conformance/support/backplane_server.hpp"

namespace bp::conformance {

namespace {

namespace fs = std::filesystem;

struct Example {
  std::string name, text, finish_reason;
  std::vector<int32_t> ids;
  uint32_t max_tokens = 0, n_generated = 0;
};

// What the model must answer: expected.json, of the test model or beside the one that --model
// names.
std::vector<Example> load_examples(const fs::path& path) {
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (json.is_discarded()) throw Skip(path.string() + ", the answers to expect, cannot be read");
  std::vector<Example> examples;
  for (const char* kind : {"chats", "completions"}) {
    for (const auto& entry : json.at(kind)) {
      Example example;
      example.name = entry.at("name").get<std::string>();
      example.text = entry.at("greedy_text").get<std::string>();
      example.finish_reason = entry.at("finish_reason").get<std::string>();
      example.ids = entry.at("ids").get<std::vector<int32_t>>();
      example.max_tokens = entry.at("max_tokens").get<uint32_t>();
      example.n_generated = static_cast<uint32_t>(entry.at("greedy").size());
      examples.push_back(std::move(example));
    }
  }
  return examples;
}

struct Material {
  fs::path model;
  std::vector<Example> examples;
};

Material material_of(const Subject& subject) {
  if (subject.options().backplane.empty()) {
    throw Skip("there is no program `backplane` beside this one");
  }
  const fs::path given = subject.options().model;
  const fs::path model = given.empty() ? test_model() : given;
  if (!fs::exists(model)) throw Skip("the model " + model.string() + " does not exist");
  return {model, load_examples(given.empty() ? expected_answers()
                                             : given.parent_path() / "expected.json")};
}

void require_answer(const Example& example, const Completion& found, const std::string& how) {
  require(found.text == example.text && found.finish_reason == example.finish_reason,
          "the prompt '" + example.name + "' " + how + ": expected \"" + example.text + "\" (" +
              example.finish_reason + "), got \"" + found.text + "\" (" + found.finish_reason +
              ")");
}

void answers_one_by_one(Subject& subject) {
  const Material material = material_of(subject);
  BackplaneServer server(subject, {material.model});
  for (const Example& example : material.examples) {
    if (example.n_generated > 32) continue;
    require_answer(example, server.complete({example.ids}, example.max_tokens).front(), "alone");
  }
}

void answers_long_text(Subject& subject) {
  const Material material = material_of(subject);
  BackplaneServer server(subject, {material.model});
  for (const Example& example : material.examples) {
    if (example.n_generated <= 100 || example.n_generated > 200) continue;
    require_answer(example, server.complete({example.ids}, example.max_tokens).front(), "alone");
    return;
  }
  throw Skip("no answer has 100 to 200 tokens");
}

// All prompts of short answers in one request.
void answer_together(const Material& material, BackplaneServer& server, const std::string& how) {
  std::vector<Example> examples;
  std::vector<std::vector<int32_t>> prompts;
  uint32_t max_tokens = 0;
  for (const Example& example : material.examples) {
    if (example.n_generated > 48 || example.finish_reason != "stop") continue;
    examples.push_back(example);
    prompts.push_back(example.ids);
    max_tokens = std::max(max_tokens, example.max_tokens);
  }
  const std::vector<Completion> found = server.complete(prompts, max_tokens);
  for (size_t i = 0; i < examples.size(); ++i) require_answer(examples[i], found[i], how);
}

void answers_a_batch(Subject& subject) {
  const Material material = material_of(subject);
  BackplaneServer server(subject, {material.model, 256});
  answer_together(material, server, "in a batch");
}

void answers_in_small_chunks(Subject& subject) {
  const Material material = material_of(subject);
  BackplaneServer server(subject, {material.model, 16});
  answer_together(material, server, "in chunks of 16 tokens a step");
}

}  // namespace

void add_model_tests(Subject&, Tests& tests) {
  const auto add = [&](const char* name, const char* description, void (*body)(Subject&)) {
    tests.push_back({name, "model", description, body, std::chrono::seconds(180)});
  };
  add("model-greedy", "Greedy answers of the test model are the expected ones, to the letter.",
      answers_one_by_one);
  add("model-long", "So is an answer of more than 100 tokens.", answers_long_text);
  add("model-batch", "So are they when all prompts run in one batch.", answers_a_batch);
  add("model-chunks", "So are they when steps have 16 tokens and prompts are cut.",
      answers_in_small_chunks);
}

}  // namespace bp::conformance
