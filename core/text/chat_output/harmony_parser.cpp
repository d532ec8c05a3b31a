// Messages in channels: <|channel|>analysis<|message|>..<|end|><|start|>assistant<|channel|>
// commentary to=functions.NAME <|constrain|>json<|message|>{..}<|call|>. The prompt ends with
// <|start|>assistant.

#include <algorithm>
#include <utility>

#include "core/text/chat_output/call_reader.hpp"
#include "core/text/chat_output/json_scanner.hpp"
#include "core/text/chat_output/marks.hpp"
#include "core/text/chat_output/parsers.hpp"

namespace bp::text::chat {

namespace {

constexpr std::string_view kStart = "<|start|>";
constexpr std::string_view kChannel = "<|channel|>";
constexpr std::string_view kMessage = "<|message|>";
constexpr std::string_view kRecipient = "to=";
constexpr std::string_view kFunctions = "functions.";

using Role = Mark::Role;

// What ends a message; a header without a beginning of its own ends it too.
const Marks& body_marks() {
  static const Marks marks = {{"<|end|>", Role::kDropped},
                              {"<|return|>", Role::kDropped},
                              {"<|call|>", Role::kDropped},
                              {kStart, Role::kSection},
                              {kChannel, Role::kSection}};
  return marks;
}

// What an answer begins with, if it has messages at all.
const Marks& header_begins() {
  static const Marks marks = {{kStart, Role::kSection},
                              {kChannel, Role::kSection},
                              {kMessage, Role::kSection},
                              {kRecipient, Role::kSection}};
  return marks;
}

// The word behind `key` in a header.
std::string_view word_behind(std::string_view header, std::string_view key) {
  const size_t at = header.find(key);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = header.substr(at + key.size());
  return rest.substr(0, std::min(rest.find_first_of(" \t\r\n<"), rest.size()));
}

class HarmonyParser : public OutputParser {
 public:
  explicit HarmonyParser(const OutputSettings& settings)
      : OutputParser(settings), tools_(settings.tools) {}

 private:
  enum class Place : uint8_t { kBetween, kHeader, kBody };
  enum class Kind : uint8_t { kContent, kReasoning, kCall };

  bool step(std::string& held, bool at_end) override {
    switch (place_) {
      case Place::kBetween:
        return between(held, at_end);
      case Place::kHeader:
        return read_header(held, at_end);
      default:
        return read_body(held, at_end);
    }
  }

  bool between(std::string& held, bool at_end) {
    size_t n_space = 0;
    while (n_space < held.size() && is_json_space(held[n_space])) ++n_space;
    if (n_space == held.size()) {
      if (at_end && !has_message_) out_.content(std::exchange(held, {}));
      return false;
    }
    const FoundMark found = mark_at(held, n_space, header_begins(), at_end);
    if (found.at == n_space && found.mark == nullptr) return false;
    place_ = found.mark == nullptr ? Place::kBody : Place::kHeader;
    if (found.mark != nullptr || has_message_) held.erase(0, n_space);
    kind_ = Kind::kContent;
    return true;
  }

  bool read_header(std::string& held, bool at_end) {
    const size_t end = held.find(kMessage);
    if (end == std::string::npos && held.size() <= kMaxHeaderBytes && !at_end) return false;
    if (end > kMaxHeaderBytes) {
      // No header after all.
      kind_ = Kind::kContent;
      out_.content(std::exchange(held, {}));
    } else {
      begin_message(std::string_view(held).substr(0, end));
      held.erase(0, end + kMessage.size());
    }
    place_ = Place::kBody;
    return true;
  }

  void begin_message(std::string_view header) {
    has_message_ = true;
    std::string_view recipient = word_behind(header, kRecipient);
    const bool is_function = recipient.starts_with(kFunctions);
    if (is_function) recipient.remove_prefix(kFunctions.size());
    const bool is_name = !recipient.empty() && recipient.size() <= kMaxNameBytes &&
                         std::ranges::all_of(recipient, is_name_char);
    const bool is_call =
        !tools_.empty() && is_name && (is_function || find_tool(tools_, recipient) != nullptr);
    if (is_call) {
      kind_ = Kind::kCall;
      out_.begin_call(recipient);
    } else {
      const bool reasons = word_behind(header, kChannel) == "analysis";
      kind_ = reasons ? Kind::kReasoning : Kind::kContent;
      if (reasons && std::exchange(has_reasoned_, true)) out_.reasoning("\n");
    }
  }

  bool read_body(std::string& held, bool at_end) {
    const FoundMark found = find_mark(held, body_marks(), at_end);
    say(std::string_view(held).substr(0, found.at));
    if (found.mark == nullptr) {
      held.erase(0, found.at);
      return false;
    }
    const bool is_header = found.mark->role == Role::kSection;
    held.erase(0, found.at + (is_header ? 0 : found.mark->text.size()));
    out_.end_call();
    place_ = is_header ? Place::kHeader : Place::kBetween;
    return true;
  }

  void say(std::string_view text) {
    switch (kind_) {
      case Kind::kContent:
        return out_.content(text);
      case Kind::kReasoning:
        return out_.reasoning(text);
      default:
        return out_.arguments(text);
    }
  }

  const Tools& tools_;
  Place place_ = Place::kBetween;
  Kind kind_ = Kind::kContent;
  bool has_message_ = false;
  bool has_reasoned_ = false;
};

}  // namespace

std::unique_ptr<OutputParser> make_harmony_parser(const OutputSettings& settings) {
  return std::make_unique<HarmonyParser>(settings);
}

}  // namespace bp::text::chat
