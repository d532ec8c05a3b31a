// backplane render: a chat request in JSON on standard input to the prompt's text.

#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/read_file.hpp"
#include "core/cli/commands.hpp"
#include "core/cli/standard_input.hpp"
#include "core/runtime/launch.hpp"
#include "core/text/chat_template.hpp"

namespace bp::cli {

namespace {

Result<std::shared_ptr<const text::ChatTemplate>> from_file(const std::string& path) {
  BP_ASSIGN(std::string source, base::read_file(path, text::kMaxTemplateFileBytes));
  auto made = text::ChatTemplate::create(std::move(source), text::TokenTexts{});
  if (!made.ok()) return made.status().with_context(path);
  return std::shared_ptr<const text::ChatTemplate>(
      std::make_shared<const text::ChatTemplate>(std::move(made).value()));
}

Result<std::shared_ptr<const text::ChatTemplate>> from_model(const std::string& path) {
  BP_ASSIGN(const auto runtime, runtime::default_runtime(1));
  BP_ASSIGN(const auto file, runtime->open_model(path, "auto"));
  auto vocabulary = text::read_vocabulary(file->metadata());
  if (!vocabulary.ok()) return vocabulary.status().with_context(path);
  auto chat_template = runtime::make_chat_template(*vocabulary);
  if (!chat_template.ok()) return chat_template.status().with_context(path);
  if (*chat_template == nullptr) return invalid_argument(path + ": the model has no chat template");
  return chat_template;
}

}  // namespace

Status render(const RenderOptions& options) {
  BP_ASSIGN(const auto chat_template, options.template_file.empty()
                                          ? from_model(options.model)
                                          : from_file(options.template_file));
  BP_ASSIGN(nlohmann::ordered_json request, read_standard_json());
  if (!request.is_object()) return invalid_argument("standard input is no JSON object");
  BP_ASSIGN(const std::tm now, text::take_clock(request));
  BP_ASSIGN(const std::string prompt, chat_template->render(request, now));
  std::fwrite(prompt.data(), 1, prompt.size(), stdout);
  return {};
}

}  // namespace bp::cli
