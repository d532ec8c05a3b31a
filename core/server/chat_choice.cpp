#include "core/server/chat_choice.hpp"

#include <fmt/format.h>

#include <random>

#include "core/server/answer_parts.hpp"
#include "core/server/json_text.hpp"

namespace bp::server {

using text::chat::OutputEvent;
using Kind = OutputEvent::Kind;

namespace {

constexpr std::string_view kIdLetters =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
constexpr size_t kIdSize = 24;
constexpr size_t kShortIdSize = 9;

void append_text_member(std::string_view name, std::string_view text, std::string& out) {
  out += '"';
  out += name;
  out += "\":";
  append_string(text, out);
}

void append_call_begin(std::string_view id, std::string_view name, std::string& out) {
  append_text_member("id", id, out);
  out += R"(,"type":"function","function":{)";
  append_text_member("name", name, out);
  out += R"(,"arguments":)";
}

}  // namespace

ChatChoice::ChatChoice(const text::chat::OutputSettings& settings)
    : settings_(settings), parser_(text::chat::OutputParser::create(settings)) {}

std::string ChatChoice::make_id(uint32_t call, std::string_view name) const {
  const text::chat::IdForm form = settings_.dialect->id_form;
  if (form == text::chat::IdForm::kFunction) {
    return fmt::format("functions.{}:{}", name, settings_.n_earlier_calls + call);
  }
  const bool is_short = form == text::chat::IdForm::kShort;
  std::string id = is_short ? "" : "call_";
  std::random_device device;
  std::uniform_int_distribution<size_t> letter(0, kIdLetters.size() - 1);
  for (size_t i = 0; i < (is_short ? kShortIdSize : kIdSize); ++i) id += kIdLetters[letter(device)];
  return id;
}

std::vector<std::string> ChatChoice::stream(std::string_view text) {
  return deltas(parser_->push(text));
}

std::vector<std::string> ChatChoice::stream_end() {
  return deltas(parser_->finish());
}

std::vector<std::string> ChatChoice::deltas(const text::chat::OutputEvents& events) const {
  std::vector<std::string> deltas;
  for (const OutputEvent& event : events) {
    std::string delta;
    switch (event.kind) {
      case Kind::kContent:
        append_text_member("content", event.text, delta);
        break;
      case Kind::kReasoning:
        append_text_member("reasoning_content", event.text, delta);
        break;
      case Kind::kCallBegin:
        delta = R"("tool_calls":[{"index":)";
        append_number(event.call, delta);
        delta += ',';
        append_call_begin(make_id(event.call, event.text), event.text, delta);
        delta += R"(""}}])";
        break;
      case Kind::kCallArguments:
        delta = R"("tool_calls":[{"index":)";
        append_number(event.call, delta);
        delta += R"(,"function":{)";
        append_text_member("arguments", event.text, delta);
        delta += "}}]";
        break;
      case Kind::kCallEnd:
        continue;
    }
    deltas.push_back(std::move(delta));
  }
  return deltas;
}

void ChatChoice::read(std::string_view text) {
  add(parser_->push(text));
}

void ChatChoice::end() {
  add(parser_->finish());
}

void ChatChoice::add(const text::chat::OutputEvents& events) {
  for (const OutputEvent& event : events) {
    switch (event.kind) {
      case Kind::kContent:
        content_ += event.text;
        break;
      case Kind::kReasoning:
        reasoning_ += event.text;
        break;
      case Kind::kCallBegin:
        calls_.push_back({make_id(event.call, event.text), event.text, {}});
        break;
      case Kind::kCallArguments:
        calls_.back().arguments += event.text;
        break;
      case Kind::kCallEnd:
        break;
    }
  }
}

void ChatChoice::append_message(std::string& out) const {
  out += R"({"role":"assistant","content":)";
  if (content_.empty() && !calls_.empty()) {
    out += "null";
  } else {
    append_string(content_, out);
  }
  if (!reasoning_.empty()) {
    out += ',';
    append_text_member("reasoning_content", reasoning_, out);
  }
  for (size_t i = 0; i < calls_.size(); ++i) {
    out += i == 0 ? R"(,"tool_calls":[{)" : ",{";
    append_call_begin(calls_[i].id, calls_[i].name, out);
    append_string(calls_[i].arguments, out);
    out += "}}";
  }
  if (!calls_.empty()) out += ']';
  out += R"(,"refusal":null})";
}

void ChatChoice::append_finish_reason(engine::FinishReason reason, std::string& out) const {
  if (reason == engine::FinishReason::kStop && parser_->n_calls() > 0) {
    out += R"(,"finish_reason":"tool_calls")";
  } else {
    server::append_finish_reason(reason, out);
  }
}

}  // namespace bp::server
