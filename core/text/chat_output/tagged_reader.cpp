// The name and each argument between tags; the arguments become JSON by the types of the function's
// schema.

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/text/chat_output/call_reader.hpp"
#include "core/text/chat_output/json_scanner.hpp"

namespace bp::text::chat {

namespace {

constexpr size_t kMaxKeyBytes = 256;

// The line breaks that stand between tag and value.
std::string_view without_breaks(std::string_view text) {
  if (text.starts_with('\n')) text.remove_prefix(1);
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

class TaggedReader : public CallReader {
 public:
  explicit TaggedReader(const CallContext& context)
      : context_(context), tags_(context.syntax.tags) {}

  State read(std::string_view text, size_t& n_read, EventWriter& out) override {
    State state = State::kMore;
    while (advance(text, n_read, out, state)) {
    }
    return state;
  }

  void close(EventWriter& out) override { out.arguments("}"); }

 private:
  enum class Place : uint8_t { kNameBegin, kName, kKeyBegin, kKey, kValueBegin, kValue };
  enum class Found : uint8_t { kYes, kNo, kMore };

  // One tag or text between tags; false where `state` says what comes now.
  bool advance(std::string_view text, size_t& n_read, EventWriter& out, State& state) {
    const bool in_value =
        place_ == Place::kValue || (place_ == Place::kValueBegin && tags_.value_begin.empty());
    if (!in_value) skip_space(text, n_read);
    const std::string_view rest = text.substr(n_read);
    Found found = Found::kMore;
    size_t n = 0;
    switch (place_) {
      case Place::kNameBegin:
        found = tag(rest, tags_.name_begin, n, Place::kName);
        break;
      case Place::kName:
        found = name(rest, n);
        break;
      case Place::kKeyBegin:
        found = tag(rest, tags_.key_begin, n, Place::kKey);
        if (found != Found::kYes) {
          const Found end = tag(rest, tags_.end, n, Place::kKeyBegin);
          if (end == Found::kYes) {
            n_read += n;
            finish(out);
            state = State::kDone;
            return false;
          }
          found = end == Found::kMore ? Found::kMore : found;
        }
        break;
      case Place::kKey:
        found = between(rest, tags_.key_end, kMaxKeyBytes, key_, n, Place::kValueBegin);
        break;
      case Place::kValueBegin:
        found = tag(rest, tags_.value_begin, n, Place::kValue);
        break;
      default: {
        std::string value;
        found = between(rest, tags_.value_end, SIZE_MAX, value, n, Place::kKeyBegin);
        if (found == Found::kYes) argument(value, out);
        break;
      }
    }
    if (found == Found::kNo) state = State::kBroken;
    if (found != Found::kYes) return false;
    n_read += n;
    return true;
  }

  static void skip_space(std::string_view text, size_t& n_read) {
    while (n_read < text.size() && is_json_space(text[n_read])) ++n_read;
  }

  Found tag(std::string_view rest, std::string_view expected, size_t& n, Place next) {
    if (rest.size() < expected.size()) {
      return expected.starts_with(rest) ? Found::kMore : Found::kNo;
    }
    if (!rest.starts_with(expected)) return Found::kNo;
    n = expected.size();
    place_ = next;
    return Found::kYes;
  }

  // The text up to `end`. What was searched before is not searched again.
  Found between(std::string_view rest, std::string_view end, size_t n_max, std::string& out,
                size_t& n, Place next) {
    const size_t at = rest.find(end, n_searched_);
    if (at == std::string_view::npos) {
      n_searched_ = rest.size() - std::min(rest.size(), end.size() - 1);
      return rest.size() > n_max ? Found::kNo : Found::kMore;
    }
    n_searched_ = 0;
    if (at > n_max) return Found::kNo;
    out = rest.substr(0, at);
    n = at + end.size();
    place_ = next;
    return Found::kYes;
  }

  Found name(std::string_view rest, size_t& n) {
    while (n < rest.size() && is_name_char(rest[n])) ++n;
    if (n > kMaxNameBytes) return Found::kNo;
    name_ = rest.substr(0, n);
    const std::string_view behind = rest.substr(n);
    if (behind.empty()) return Found::kMore;
    if (!may_call(context_, name_)) return Found::kNo;
    if (tags_.name_end.empty()) {
      place_ = Place::kKeyBegin;
      return Found::kYes;
    }
    size_t n_end = 0;
    const Found end = tag(behind, tags_.name_end, n_end, Place::kKeyBegin);
    n += n_end;
    return end;
  }

  void begin(EventWriter& out) {
    if (std::exchange(has_begun_, true)) return;
    out.begin_call(name_);
    out.arguments("{");
  }

  // Takes the mark away from the key that it stands behind.
  bool is_marked(std::string_view mark) {
    if (mark.empty() || !key_.ends_with(mark)) return false;
    key_.resize(key_.size() - mark.size());
    return true;
  }

  void argument(std::string_view value, EventWriter& out) {
    begin(out);
    const bool is_text = is_marked(tags_.text_mark);
    if (!is_text) is_marked(tags_.json_mark);
    std::string piece = std::exchange(has_arguments_, true) ? ", " : "";
    append_json_string(key_, piece);
    piece += ": ";
    if (is_text) {
      append_json_string(value, piece);
    } else {
      append_value(value, piece);
    }
    out.arguments(piece);
  }

  void append_value(std::string_view value, std::string& out) const {
    const Tool* tool = find_tool(context_.tools, name_);
    const ToolParameter* parameter = find_parameter(tool, key_);
    const std::string_view json = json_literal(trim_json_space(value));
    const bool is_text = parameter != nullptr && parameter->is_text;
    if (!is_text && is_json(json)) {
      out += json;
    } else {
      append_json_string(without_breaks(value), out);
    }
  }

  void finish(EventWriter& out) {
    begin(out);
    close(out);
    out.end_call();
  }

  CallContext context_;
  const CallTags& tags_;
  Place place_ = Place::kNameBegin;
  std::string name_;
  std::string key_;
  size_t n_searched_ = 0;
  bool has_begun_ = false;
  bool has_arguments_ = false;
};

}  // namespace

std::unique_ptr<CallReader> make_tagged_reader(const CallContext& context) {
  return std::make_unique<TaggedReader>(context);
}

}  // namespace bp::text::chat
