#pragma once
// The chat template of a model: messages of a conversation to prompt text.

#include <cstdint>
#include <ctime>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/status.hpp"
#include "core/text/jinja/template.hpp"
#include "core/text/message_form.hpp"

namespace bp::text {

inline constexpr uint64_t kMaxTemplateFileBytes = 4 << 20;

// Templates know a message's reasoning by one of these.
inline constexpr const char* kReasoningFields[] = {"reasoning_content", "reasoning", "thinking"};

// Variable name ("bos_token", "eos_token", ...) to the token's text. Tokens that a model lacks
// stay absent.
using TokenTexts = std::map<std::string, std::string>;

// Some models carry several templates: "default", "tool_use", ...
struct NamedTemplate {
  std::string name;
  std::string source;
};

// Immutable; render may be called from any thread, concurrently.
class ChatTemplate {
 public:
  static Result<ChatTemplate> create(std::string source, TokenTexts tokens);
  // With tools "tool_use" is rendered where it exists, else "default", which must exist unless
  // there is only one template.
  static Result<ChatTemplate> create(const std::vector<NamedTemplate>& templates,
                                     TokenTexts tokens);

  // `request` is an object whose members become variables: messages, tools (absent: none),
  // add_generation_prompt (absent: false) and whatever else the template reads. Special tokens
  // may be overridden by it. `now` is what strftime_now shows; `mark`: see jinja::RenderOptions.
  // Errors are those of jinja::Template::render: INVALID_ARGUMENT with the template's own message
  // where it refuses the conversation, UNSUPPORTED where it fails on it, OUT_OF_MEMORY at limits.
  // All are the request's fault and will repeat.
  Result<std::string> render(const nlohmann::ordered_json& request, const std::tm& now,
                             const jinja::Mark* mark = nullptr) const;
  Result<std::string> render(const nlohmann::ordered_json& request,
                             const jinja::RenderOptions& options) const;

  // The sources of all templates.
  [[nodiscard]] const std::string& source() const { return source_; }
  // Whether a template reads the variable, or at least speaks of it.
  [[nodiscard]] bool mentions(std::string_view variable) const;
  [[nodiscard]] const MessageForm& message_form() const { return message_form_; }

 private:
  ChatTemplate(std::map<std::string, jinja::Template> templates, TokenTexts tokens,
               std::string source);
  const jinja::Template& choose(const nlohmann::ordered_json& variables) const;

  std::map<std::string, jinja::Template> templates_;  // by name, never empty
  TokenTexts tokens_;
  std::string source_;
  MessageForm message_form_;
};

// The present local time.
std::tm local_clock();
// "2026-01-15T12:00:00", or a date alone.
Result<std::tm> parse_clock(std::string_view iso_time);
// Takes the member "now" out of a request, for callers that let it fix the clock; without one the
// present local time.
Result<std::tm> take_clock(nlohmann::ordered_json& request);

}  // namespace bp::text
