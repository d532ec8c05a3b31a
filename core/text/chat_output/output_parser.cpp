#include "core/text/chat_output/output_parser.hpp"

#include <algorithm>

#include "core/text/chat_output/json_scanner.hpp"
#include "core/text/chat_output/marks.hpp"
#include "core/text/chat_output/parsers.hpp"
#include "core/text/tokenizer.hpp"

namespace bp::text::chat {

namespace {

constexpr std::string_view kAssistant = "<|start|>assistant";
constexpr std::string_view kMessage = "<|message|>";
constexpr std::string_view kMessageEnds[] = {"<|end|>", "<|return|>", "<|call|>"};

// Templates may have taken the white space around the words away.
std::string_view without_begun(std::string_view prompt, std::string_view begun) {
  const std::string_view words = trim_json_space(begun);
  std::string_view rest = trim_json_space_right(prompt);
  if (words.empty() || !rest.ends_with(words)) return prompt;
  rest.remove_suffix(words.size());
  return trim_json_space_right(rest);
}

std::string harmony_lead(std::string_view prompt) {
  const size_t at = prompt.rfind(kAssistant);
  if (at == std::string_view::npos) return {};
  const std::string_view lead = prompt.substr(at + kAssistant.size());
  const std::string_view header = lead.substr(0, lead.find(kMessage));
  if (header.size() > kMaxHeaderBytes) return {};
  // A message that has ended is an earlier one, not the answer's.
  const bool has_ended = std::ranges::any_of(
      kMessageEnds, [&](std::string_view end) { return lead.find(end) != std::string_view::npos; });
  return has_ended ? std::string() : std::string(lead);
}

}  // namespace

std::unique_ptr<OutputParser> OutputParser::create(const OutputSettings& settings) {
  auto parser =
      settings.dialect->is_harmony ? make_harmony_parser(settings) : make_marked_parser(settings);
  parser->held_ = settings.lead;
  return parser;
}

OutputEvents OutputParser::push(std::string_view text) {
  held_ += text;
  while (!is_over() && step(held_, /*at_end=*/false)) {
  }
  if (is_over()) held_.clear();
  return out_.take();
}

OutputEvents OutputParser::finish() {
  while (!is_over() && step(held_, /*at_end=*/true)) {
  }
  out_.end_call();
  return out_.take();
}

std::string prompt_lead(const Dialect& dialect, std::string_view prompt, std::string_view begun) {
  // The parser would give the words of a message back, as if the model had said them.
  if (dialect.is_harmony) return harmony_lead(without_begun(prompt, begun));
  if (!dialect.reasoning_begin.empty()) {
    const size_t at = begun.rfind(dialect.reasoning_begin);
    const bool is_open = at != std::string_view::npos &&
                         begun.find(dialect.reasoning_end, at) == std::string_view::npos;
    if (is_open || trim_json_space_right(prompt).ends_with(dialect.reasoning_begin)) {
      return std::string(dialect.reasoning_begin);
    }
  }
  for (const CallSyntax& call : dialect.calls) {
    if (!call.begin.empty() && prompt.ends_with(call.begin)) return std::string(call.begin);
  }
  return {};
}

std::vector<int32_t> marker_tokens(const Dialect& dialect, bool with_calls,
                                   const Tokenizer& tokenizer) {
  std::vector<int32_t> tokens;
  for (const std::string& text : marker_texts(dialect, with_calls)) {
    for (const int32_t id : tokenizer.encode(text, {.add_special = false})) {
      if (tokenizer.is_control(id)) tokens.push_back(id);
    }
  }
  std::ranges::sort(tokens);
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

}  // namespace bp::text::chat
