// Reasoning and calls between marks, as the dialect's row says.

#include <algorithm>
#include <utility>

#include "core/text/chat_output/call_reader.hpp"
#include "core/text/chat_output/json_scanner.hpp"
#include "core/text/chat_output/marks.hpp"
#include "core/text/chat_output/parsers.hpp"

namespace bp::text::chat {

namespace {

// White space before a mark is no part of the text; a longer run of it is, but for its end.
constexpr size_t kMaxHeldSpace = 256;

size_t leading_space(std::string_view text) {
  size_t n = 0;
  while (n < text.size() && is_json_space(text[n])) ++n;
  return n;
}

size_t trailing_space(std::string_view text) {
  size_t n = 0;
  while (n < text.size() && n < kMaxHeldSpace && is_json_space(text[text.size() - 1 - n])) ++n;
  return n;
}

bool is_name_begin(char c) {
  return is_name_char(c) && c != '-' && c != '.' && (c < '0' || c > '9');
}

// Whether a call of that syntax may begin with this text. It begins with no white space.
bool fits(const CallSyntax& syntax, std::string_view text) {
  const char c = text.front();
  const std::string_view behind = text.substr(1);
  const size_t n_space = leading_space(behind);
  const bool opens_objects = n_space < behind.size() && behind[n_space] == '{';
  switch (syntax.shape) {
    case CallShape::kObjects:
      return c == '{' || (c == '[' && opens_objects);
    case CallShape::kPython:
      return is_name_begin(c) || (c == '[' && !opens_objects);
    case CallShape::kTagged:
    case CallShape::kEscaped:
      return syntax.tags.name_begin.empty() ? is_name_begin(c) : c == syntax.tags.name_begin[0];
    default:
      return syntax.begin.empty() ? is_name_begin(c) : c != '{' && c != '[';
  }
}

// Whether `fits` needs to see more.
bool is_undecided(std::string_view text) {
  return text.empty() || (text.front() == '[' && leading_space(text.substr(1)) + 1 == text.size());
}

std::unique_ptr<CallReader> make_reader(const CallContext& context) {
  switch (context.syntax.shape) {
    case CallShape::kObjects:
      return make_object_reader(context);
    case CallShape::kNamed:
      return make_named_reader(context);
    case CallShape::kTagged:
      return make_tagged_reader(context);
    case CallShape::kEscaped:
      return make_escaped_reader(context);
    default:
      return make_python_reader(context);
  }
}

class MarkedParser : public OutputParser {
 public:
  explicit MarkedParser(const OutputSettings& settings)
      : OutputParser(settings), dialect_(*settings.dialect), tools_(settings.tools) {
    using Role = Mark::Role;
    const auto add = [](Marks& marks, std::string_view text, Role role) {
      if (!text.empty()) marks.push_back({text, role});
    };
    add(text_marks_, dialect_.reasoning_begin, Role::kReasoningBegin);
    add(reasoning_marks_, dialect_.reasoning_end, Role::kReasoningEnd);
    for (const std::string_view text : dialect_.dropped) add(text_marks_, text, Role::kDropped);
    looks_for_calls_ = !tools_.empty() && dialect_.has_calls();
    if (!looks_for_calls_) return;
    add(call_marks_, dialect_.section_begin, Role::kSection);
    for (const CallSyntax& call : dialect_.calls) {
      add(call_marks_, call.begin, Role::kCall);
      may_begin_with_call_ = may_begin_with_call_ || call.begin.empty();
    }
    text_marks_.insert(text_marks_.end(), call_marks_.begin(), call_marks_.end());
    for (const std::string_view text : dialect_.call_ends) {
      add(call_marks_, text, Role::kCallEnd);
    }
  }

 private:
  enum class Place : uint8_t { kContent, kReasoning, kOpening, kCall, kBetween };

  bool step(std::string& held, bool at_end) override {
    switch (place_) {
      case Place::kOpening:
        return open_call(held, at_end);
      case Place::kCall:
        return read_call(held, at_end);
      case Place::kBetween:
        return between(held, at_end);
      default:
        return read_text(held, at_end);
    }
  }

  void say(std::string_view text) {
    if (place_ == Place::kReasoning) {
      out_.reasoning(text);
    } else {
      out_.content(text);
      if (leading_space(text) < text.size()) may_begin_with_call_ = false;
    }
  }

  bool read_text(std::string& held, bool at_end) {
    if (skips_space_) {
      held.erase(0, leading_space(held));
      skips_space_ = held.empty();
    }
    if (held.empty()) return false;
    if (place_ == Place::kContent) {
      if (may_begin_with_call_ && begins_call(held)) return true;
      if (is_at_begin_) look_for_begin(held, at_end);
    }
    const bool in_reasoning = place_ == Place::kReasoning;
    const Marks& marks = in_reasoning ? reasoning_marks_ : text_marks_;
    const FoundMark found = find_mark(held, marks, at_end);
    const std::string_view before = std::string_view(held).substr(0, found.at);
    if (found.mark != nullptr) return take_mark(held, *found.mark, before);
    const bool holds_space = !at_end && !marks.empty();
    const size_t n = before.size() - (holds_space ? trailing_space(before) : 0);
    say(before.substr(0, n));
    held.erase(0, n);
    return false;
  }

  // Where content begins with no mark.
  void look_for_begin(std::string_view held, bool at_end) {
    const size_t n_space = leading_space(held);
    if (n_space == held.size()) return;
    const FoundMark found = mark_at(held, n_space, text_marks_, at_end);
    if (found.at > n_space) return begin_content();
    if (found.mark != nullptr && found.mark->role == Mark::Role::kDropped) has_wrapping_ = true;
  }

  // From here on the answer may speak of such marks: it reasons before, and is wrapped as a whole.
  void begin_content() {
    is_at_begin_ = false;
    std::erase_if(text_marks_, [this](const Mark& mark) {
      const bool is_wrapping = mark.role == Mark::Role::kDropped && dialect_.is_wrapped;
      return mark.role == Mark::Role::kReasoningBegin || (is_wrapping && !has_wrapping_);
    });
  }

  bool take_mark(std::string& held, const Mark& mark, std::string_view before) {
    const bool keeps_space = mark.role == Mark::Role::kDropped;
    const size_t n_said = before.size() - (keeps_space ? 0 : trailing_space(before));
    const size_t n_read = before.size() + mark.text.size();
    say(before.substr(0, n_said));
    const std::string read = held.substr(n_said, n_read - n_said);
    held.erase(0, n_read);
    enter(mark, read);
    return true;
  }

  // read: the mark and what was held back before it.
  void enter(const Mark& mark, std::string_view read) {
    switch (mark.role) {
      case Mark::Role::kReasoningBegin:
        place_ = Place::kReasoning;
        skips_space_ = true;
        break;
      case Mark::Role::kReasoningEnd:
        place_ = Place::kContent;
        skips_space_ = true;
        break;
      case Mark::Role::kSection:
        raw_ += read;
        place_ = Place::kBetween;
        break;
      case Mark::Role::kCall:
        raw_ += read;
        begin_ = mark.text;
        place_ = Place::kOpening;
        break;
      default:
        break;
    }
  }

  // A call without a mark, where the answer begins.
  bool begins_call(std::string& held) {
    const size_t n_space = leading_space(held);
    if (n_space == held.size() || !fits_any({}, std::string_view(held).substr(n_space))) {
      return false;
    }
    may_begin_with_call_ = false;
    begin_ = {};
    place_ = Place::kOpening;
    return true;
  }

  [[nodiscard]] const CallSyntax* fits_any(std::string_view begin, std::string_view text) const {
    for (const CallSyntax& syntax : dialect_.calls) {
      if (syntax.begin == begin && fits(syntax, text)) return &syntax;
    }
    return nullptr;
  }

  bool open_call(std::string& held, bool at_end) {
    const size_t n_space = leading_space(held);
    raw_ += held.substr(0, n_space);
    held.erase(0, n_space);
    if (is_undecided(held) && !at_end) return false;
    const CallSyntax* syntax = held.empty() ? nullptr : fits_any(begin_, held);
    if (syntax == nullptr) return give_up();
    const auto& ends = dialect_.call_ends;
    reader_ = make_reader({*syntax, ends.empty() ? std::string_view() : ends.front(), tools_});
    repeats_ = syntax->repeats;
    n_calls_before_ = out_.n_calls();
    place_ = Place::kCall;
    return true;
  }

  // What was read since the mark is no call.
  bool give_up() {
    place_ = Place::kContent;
    may_begin_with_call_ = false;
    begin_content();
    say(std::exchange(raw_, {}));
    return true;
  }

  bool read_call(std::string& held, bool at_end) {
    size_t n_read = 0;
    const CallReader::State state = reader_->read(held, n_read, out_);
    const bool has_begun = out_.n_calls() > n_calls_before_;
    if (!has_begun) raw_ += held.substr(0, n_read);
    held.erase(0, n_read);
    if (state == CallReader::State::kMore && !at_end) return false;
    const bool is_cut = state != CallReader::State::kDone;
    if (is_cut && !has_begun) return give_up();
    if (is_cut && at_end && state == CallReader::State::kMore) held.clear();
    if (out_.in_call()) {
      reader_->close(out_);
      out_.end_call();
    }
    raw_.clear();
    place_ = Place::kBetween;
    return true;
  }

  // Behind a call, or in a section before the first one, which raw_ then holds.
  bool between(std::string& held, bool at_end) {
    const size_t n_space = leading_space(held);
    const bool is_certain = raw_.empty();
    if (!is_certain) raw_ += held.substr(0, n_space);
    held.erase(0, n_space);
    if (held.empty()) return at_end && !is_certain ? give_up() : false;
    const FoundMark found = mark_at(held, 0, call_marks_, at_end);
    if (found.mark == nullptr && found.at == 0) return false;
    if (found.mark != nullptr && (is_certain || found.mark->role != Mark::Role::kCallEnd)) {
      const std::string read = held.substr(0, found.mark->text.size());
      held.erase(0, read.size());
      if (found.mark->role == Mark::Role::kCallEnd) repeats_ = false;
      if (found.mark->role != Mark::Role::kSection || !is_certain) enter(*found.mark, read);
      return true;
    }
    return is_certain ? next_call(held) : give_up();
  }

  bool next_call(std::string& held) {
    if (repeats_ && (held.front() == ';' || held.front() == ',')) {
      held.erase(0, 1);
      return true;
    }
    const bool goes_on = repeats_ && (is_undecided(held) || fits_any(begin_, held) != nullptr);
    place_ = goes_on ? Place::kOpening : Place::kContent;
    return true;
  }

  const Dialect& dialect_;
  const Tools& tools_;
  Marks text_marks_, reasoning_marks_, call_marks_;
  bool looks_for_calls_ = false;
  bool may_begin_with_call_ = false;
  bool skips_space_ = false;
  bool is_at_begin_ = true;  // no content has come
  bool has_wrapping_ = false;
  Place place_ = Place::kContent;
  std::string raw_;         // of a call that may turn out to be none
  std::string_view begin_;  // the mark of the call being opened or read
  std::unique_ptr<CallReader> reader_;
  bool repeats_ = false;
  uint32_t n_calls_before_ = 0;
};

}  // namespace

std::unique_ptr<OutputParser> make_marked_parser(const OutputSettings& settings) {
  return std::make_unique<MarkedParser>(settings);
}

}  // namespace bp::text::chat
