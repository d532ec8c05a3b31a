#pragma once
// One choice of a chat answer: its text read as content, reasoning and tool calls.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/request.hpp"
#include "core/text/chat_output/output_parser.hpp"

namespace bp::server {

class ChatChoice {
 public:
  // The settings outlive it.
  explicit ChatChoice(const text::chat::OutputSettings& settings);

  // The deltas of a streamed message, each the inside of {"delta":{..}}.
  [[nodiscard]] std::vector<std::string> stream(std::string_view text);
  [[nodiscard]] std::vector<std::string> stream_end();

  // For an answer in one piece. The end is said once.
  void read(std::string_view text);
  void end();
  // The message, {"role":..}.
  void append_message(std::string& out) const;

  // It has all calls that it may have: the rest of the text counts for nothing.
  [[nodiscard]] bool is_over() const { return parser_->is_over(); }
  void append_finish_reason(engine::FinishReason reason, std::string& out) const;

 private:
  struct Call {
    std::string id;
    std::string name;
    std::string arguments;
  };

  [[nodiscard]] std::string make_id(uint32_t call, std::string_view name) const;
  [[nodiscard]] std::vector<std::string> deltas(const text::chat::OutputEvents& events) const;
  void add(const text::chat::OutputEvents& events);

  const text::chat::OutputSettings& settings_;
  std::unique_ptr<text::chat::OutputParser> parser_;
  std::string content_, reasoning_;
  std::vector<Call> calls_;
};

}  // namespace bp::server
