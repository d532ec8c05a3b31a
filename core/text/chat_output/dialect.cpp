#include "core/text/chat_output/dialect.hpp"

#include <algorithm>
#include <utility>

namespace bp::text::chat {

namespace {

constexpr std::string_view kThink = "<think>";
constexpr std::string_view kThinkEnd = "</think>";

constexpr CallTags kFunctionTags = {"<function=",   ">",          "<parameter=", ">", "",
                                    "</parameter>", "</function>"};
constexpr CallTags kOpenFunctionTags = {"",           ">", "<parameter=", ">", "", "</parameter>",
                                        "</function>"};
constexpr CallTags kArgumentTags = {
    "", "", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>"};
constexpr CallTags kInvokeTags = {"<invoke name=\"", "\">",      "<parameter name=\"", "\">", "",
                                  "</parameter>",    "</invoke>"};
constexpr CallTags kMarkedTags = {"<｜DSML｜invoke name=\"",
                                  "\">",
                                  "<｜DSML｜parameter name=\"",
                                  "\">",
                                  "",
                                  "</｜DSML｜parameter>",
                                  "</｜DSML｜invoke>",
                                  "\" string=\"true",
                                  "\" string=\"false"};
constexpr CallTags kEscapeTags = {
    .name_begin = "call:", .value_begin = "<escape>", .value_end = "<escape>"};

std::vector<CallSyntax> llama3_calls() {
  return {{.begin = "<|python_tag|>", .only_known_tools = true, .repeats = true},
          {.begin = "<|python_tag|>",
           .shape = CallShape::kPython,
           .only_known_tools = true,
           .repeats = true},
          {.begin = "", .only_known_tools = true, .repeats = true},
          {.begin = "", .shape = CallShape::kPython, .only_known_tools = true}};
}

std::vector<CallSyntax> gemma_calls() {
  return {{.begin = "```tool_code",
           .shape = CallShape::kPython,
           .only_known_tools = true,
           .repeats = true},
          {.begin = "```json", .only_known_tools = true},
          {.begin = "", .only_known_tools = true},
          {.begin = "", .shape = CallShape::kPython, .only_known_tools = true}};
}

std::vector<CallSyntax> command_r_calls() {
  std::vector<CallSyntax> calls;
  for (const std::string_view begin : {"Action:\n```json", "Action: ```json", "Action:```json"}) {
    calls.push_back({.begin = begin, .name_key = "tool_name", .only_known_tools = true});
  }
  return calls;
}

// The first whose texts a template holds is its dialect: the more particular ones come first.
std::vector<Dialect> make_dialects() {
  return {
      {.name = "gpt-oss", .template_texts = {{"<|channel|>", "<|start|>"}}, .is_harmony = true},
      {.name = "minimax",
       .template_texts = {{"<minimax:tool_call>"}},
       .reasoning_begin = kThink,
       .reasoning_end = kThinkEnd,
       .calls = {{.begin = "<minimax:tool_call>",
                  .shape = CallShape::kTagged,
                  .tags = kInvokeTags,
                  .repeats = true}},
       .call_ends = {"</minimax:tool_call>"}},
      {.name = "seed-oss",
       .template_texts = {{"<seed:tool_call>"}},
       .reasoning_begin = "<seed:think>",
       .reasoning_end = "</seed:think>",
       .calls = {{.begin = "<seed:tool_call>",
                  .shape = CallShape::kTagged,
                  .tags = kFunctionTags,
                  .repeats = true}},
       .call_ends = {"</seed:tool_call>"}},
      {.name = "qwen3-coder",
       .template_texts = {{"<function=", "<parameter="}},
       .reasoning_begin = kThink,
       .reasoning_end = kThinkEnd,
       .calls = {{.begin = "<tool_call>",
                  .shape = CallShape::kTagged,
                  .tags = kFunctionTags,
                  .repeats = true},
                 {.begin = "<function=", .shape = CallShape::kTagged, .tags = kOpenFunctionTags}},
       .call_ends = {"</tool_call>"}},
      {.name = "glm",
       .template_texts = {{"<arg_key>"}},
       .reasoning_begin = kThink,
       .reasoning_end = kThinkEnd,
       .calls = {{.begin = "<tool_call>", .shape = CallShape::kTagged, .tags = kArgumentTags}}},
      {.name = "glm4",
       .template_texts = {{"[gMASK]<sop>", "<|observation|>"}},
       .reasoning_begin = kThink,
       .reasoning_end = kThinkEnd,
       .calls = {{.begin = "<|assistant|>",
                  .shape = CallShape::kNamed,
                  .name_patterns = {" \1 "},
                  .only_known_tools = true},
                 {.begin = "",
                  .shape = CallShape::kNamed,
                  .name_patterns = {" \1 "},
                  .only_known_tools = true}}},
      {.name = "functionary-v2",
       .template_texts = {{"<|recipient|>", "<|content|>"}},
       .calls = {{.begin = "<|recipient|>",
                  .shape = CallShape::kNamed,
                  .name_patterns = {" \1 <|content|> "}}},
       .call_ends = {"<|from|>assistant"},
       .dropped = {"<|from|>assistant\n", "<|recipient|>all\n<|content|>"}},
      {.name = "functionary-v3.2",
       .template_texts = {{">>>", "<|start_header_id|>"}, {">>>all"}},
       .calls = {{.begin = ">>>", .shape = CallShape::kNamed, .name_patterns = {"\1 "}}},
       .dropped = {">>>all\n"}},
      {.name = "functionary-v3.1",
       .template_texts = {{"<function="}},
       .calls = {{.begin = "<function=", .shape = CallShape::kNamed, .name_patterns = {"\1> "}}},
       .call_ends = {"</function>"}},
      {.name = "deepseek-v3.2",
       .template_texts = {{"｜DSML｜"}},
       .reasoning_begin = kThink,
       .reasoning_end = kThinkEnd,
       .calls = {{.begin = "<｜DSML｜function_calls>",
                  .shape = CallShape::kTagged,
                  .tags = kMarkedTags,
                  .repeats = true},
                 {.begin = "<｜DSML｜tool_calls>",
                  .shape = CallShape::kTagged,
                  .tags = kMarkedTags,
                  .repeats = true}},
       .call_ends = {"</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"}},
      {.name = "deepseek-v3",
       .template_texts = {{"<｜tool▁sep｜>", "```json"}},
       .reasoning_begin = kThink,
       .reasoning_end = kThinkEnd,
       .calls = {{.begin = "<｜tool▁call▁begin｜>",
                  .shape = CallShape::kNamed,
                  .name_patterns = {" function<｜tool▁sep｜> \1 ```json ", "\1<｜tool▁sep｜> "}}},
       .section_begin = "<｜tool▁calls▁begin｜>",
       .call_ends = {"```", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"}},
      {.name = "deepseek-v3.1",
       .template_texts = {{"<｜tool▁sep｜>"}},
       .reasoning_begin = kThink,
       .reasoning_end = kThinkEnd,
       .calls = {{.begin = "<｜tool▁call▁begin｜>",
                  .shape = CallShape::kNamed,
                  .name_patterns = {" \1 <｜tool▁sep｜> "}}},
       .section_begin = "<｜tool▁calls▁begin｜>",
       .call_ends = {"<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"}},
      {.name = "kimi",
       .template_texts = {{"<|tool_call_argument_begin|>"}},
       .reasoning_begin = kThink,
       .reasoning_end = kThinkEnd,
       .calls = {{.begin = "<|tool_call_begin|>",
                  .shape = CallShape::kNamed,
                  .name_patterns = {" functions.\1:\2 <|tool_call_argument_begin|> "}}},
       .section_begin = "<|tool_calls_section_begin|>",
       .call_ends = {"<|tool_call_end|>", "<|tool_calls_section_end|>"},
       .id_form = IdForm::kFunction},
      {.name = "mistral",
       .template_texts = {{"[TOOL_CALLS]"}},
       .reasoning_begin = "[THINK]",
       .reasoning_end = "[/THINK]",
       .calls = {{.begin = "[TOOL_CALLS]"},
                 {.begin = "[TOOL_CALLS]",
                  .shape = CallShape::kNamed,
                  .name_patterns = {" \1 [ARGS] ", " \1 [CALL_ID]\2[ARGS] ", " \1 "}}},
       .id_form = IdForm::kShort},
      {.name = "cohere",
       .template_texts = {{"<|START_ACTION|>"}},
       .reasoning_begin = "<|START_THINKING|>",
       .reasoning_end = "<|END_THINKING|>",
       .calls = {{.begin = "<|START_ACTION|>", .name_key = "tool_name"}},
       .call_ends = {"<|END_ACTION|>"},
       .dropped = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"}},
      {.name = "command-r",
       .template_texts = {{"<|START_OF_TURN_TOKEN|>", "Action:"}},
       .calls = command_r_calls(),
       .call_ends = {"```"}},
      {.name = "apertus",
       .template_texts = {{"<|tools_prefix|>"}},
       .reasoning_begin = "<|inner_prefix|>",
       .reasoning_end = "<|inner_suffix|>",
       .calls = {{.begin = "<|tools_prefix|>", .name_key = ""}},
       .call_ends = {"<|tools_suffix|>"}},
      {.name = "functiongemma",
       .template_texts = {{"<start_function_call>"}},
       .calls = {{.begin = "<start_function_call>",
                  .shape = CallShape::kEscaped,
                  .tags = kEscapeTags}},
       .call_ends = {"<end_function_call>"}},
      {.name = "lfm2",
       .template_texts = {{"<|tool_call_start|>"}, {"<|tool_list_start|>"}, {"List of tools: ["}},
       .reasoning_begin = kThink,
       .reasoning_end = kThinkEnd,
       .calls = {{.begin = "<|tool_call_start|>", .shape = CallShape::kPython},
                 {.begin = "<|tool_call_start|>"}},
       .call_ends = {"<|tool_call_end|>"}},
      {.name = "granite",
       .template_texts = {{"<|tool_call|>", "<|start_of_role|>"}},
       .reasoning_begin = kThink,
       .reasoning_end = kThinkEnd,
       .calls = {{.begin = "<|tool_call|>"}},
       .dropped = {"<response>", "</response>"},
       .is_wrapped = true},
      {.name = "nemotron",
       .template_texts = {{"<TOOLCALL>"}},
       .reasoning_begin = kThink,
       .reasoning_end = kThinkEnd,
       .calls = {{.begin = "<TOOLCALL>"}},
       .call_ends = {"</TOOLCALL>"}},
      {.name = "minimax-m1",
       .template_texts = {{"<tool_calls>"}},
       .reasoning_begin = kThink,
       .reasoning_end = kThinkEnd,
       .calls = {{.begin = "<tool_calls>", .repeats = true}},
       .call_ends = {"</tool_calls>"}},
      {.name = "phi-4",
       .template_texts = {{"<|tool_call|>"}},
       .reasoning_begin = kThink,
       .reasoning_end = kThinkEnd,
       .calls = {{.begin = "<|tool_call|>"}},
       .call_ends = {"<|/tool_call|>"}},
      {.name = "ernie",
       .template_texts = {{"<tool_call>", "<response>"}},
       .reasoning_begin = kThink,
       .reasoning_end = kThinkEnd,
       .calls = {{.begin = "<tool_call>", .repeats = true}},
       .call_ends = {"</tool_call>"},
       .dropped = {"<response>\n", "<response>", "\n</response>\n", "\n</response>", "</response>"},
       .is_wrapped = true},
      {.name = "hermes",
       .template_texts = {{"<tool_call>"}, {"xml_tools"}},
       .reasoning_begin = kThink,
       .reasoning_end = kThinkEnd,
       .calls = {{.begin = "<tool_call>", .repeats = true}},
       .call_ends = {"</tool_call>"}},
      {.name = "llama3",
       .template_texts = {{"<|start_header_id|>"}, {"<|header_start|>"}},
       .calls = llama3_calls()},
      {.name = "gemma",
       .template_texts = {{"<start_of_turn>"}},
       .calls = gemma_calls(),
       .call_ends = {"```"}},
      {.name = "think",
       .template_texts = {{kThink}},
       .reasoning_begin = kThink,
       .reasoning_end = kThinkEnd},
      {.name = "none"},
  };
}

void add(std::string_view text, std::vector<std::string>& out) {
  std::string piece;
  const auto flush = [&] {
    if (!piece.empty()) out.push_back(std::exchange(piece, {}));
  };
  for (const char c : text) {
    if (c == ' ' || c == kNamePlace || c == kIdPlace) {
      flush();
    } else {
      piece += c;
    }
  }
  flush();
}

void add_call_texts(const Dialect& dialect, std::vector<std::string>& out) {
  add(dialect.section_begin, out);
  for (const std::string_view end : dialect.call_ends) add(end, out);
  for (const CallSyntax& call : dialect.calls) {
    const CallTags& t = call.tags;
    add(call.begin, out);
    for (const std::string_view pattern : call.name_patterns) add(pattern, out);
    for (const std::string_view tag :
         {t.name_begin, t.name_end, t.key_begin, t.key_end, t.value_begin, t.value_end, t.end}) {
      add(tag, out);
    }
  }
}

}  // namespace

const std::vector<Dialect>& dialects() {
  static const std::vector<Dialect> all = make_dialects();
  return all;
}

const Dialect* find_dialect(std::string_view name) {
  const auto& all = dialects();
  const auto it = std::ranges::find(all, name, &Dialect::name);
  return it == all.end() ? nullptr : &*it;
}

std::vector<std::string> dialect_names() {
  std::vector<std::string> names;
  for (const Dialect& dialect : dialects()) names.emplace_back(dialect.name);
  return names;
}

const Dialect& dialect_of_template(std::string_view source) {
  const auto holds = [&](std::string_view text) {
    return source.find(text) != std::string_view::npos;
  };
  for (const Dialect& dialect : dialects()) {
    for (const auto& texts : dialect.template_texts) {
      if (std::ranges::all_of(texts, holds)) return dialect;
    }
  }
  return dialects().back();
}

std::vector<std::string> marker_texts(const Dialect& dialect, bool with_calls) {
  if (dialect.is_harmony) {
    return {"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>"};
  }
  std::vector<std::string> texts;
  add(dialect.reasoning_begin, texts);
  add(dialect.reasoning_end, texts);
  for (const std::string_view text : dialect.dropped) add(text, texts);
  if (with_calls) add_call_texts(dialect, texts);
  return texts;
}

}  // namespace bp::text::chat
