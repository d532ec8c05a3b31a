// call:NAME{key:<escape>text<escape>,n:3}: keys stand for themselves, texts between marks. A call
// goes out, in JSON, when it is complete.

#include <cstdint>
#include <utility>

#include "core/text/chat_output/call_reader.hpp"
#include "core/text/chat_output/json_scanner.hpp"

namespace bp::text::chat {

namespace {

class EscapedReader : public CallReader {
 public:
  explicit EscapedReader(const CallContext& context)
      : context_(context), tags_(context.syntax.tags) {}

  State read(std::string_view text, size_t& n_read, EventWriter& out) override {
    State state = State::kMore;
    for (; n_read < text.size() && state == State::kMore; ++n_read) {
      state = take(text[n_read]);
      if (state == State::kBroken) return state;
    }
    if (state != State::kDone) return state;
    out.begin_call(name());
    out.arguments(arguments_);
    out.end_call();
    return state;
  }

 private:
  enum class Place : uint8_t { kHeader, kArguments, kText };

  State take(char c) {
    if (arguments_.size() + piece_.size() > kMaxCallBytes) return State::kBroken;
    switch (place_) {
      case Place::kHeader:
        return header(c);
      case Place::kText:
        return text(c);
      default:
        return argument(c);
    }
  }

  [[nodiscard]] std::string_view name() const {
    return std::string_view(header_).substr(tags_.name_begin.size());
  }

  State header(char c) {
    const bool in_begin = header_.size() < tags_.name_begin.size();
    if (in_begin ? c == tags_.name_begin[header_.size()] : is_name_char(c)) {
      header_ += c;
      return in_begin || name().size() <= kMaxNameBytes ? State::kMore : State::kBroken;
    }
    if (in_begin || c != '{' || !may_call(context_, name())) return State::kBroken;
    place_ = Place::kArguments;
    return add("{");
  }

  State text(char c) {
    piece_ += c;
    if (!piece_.ends_with(tags_.value_end)) return State::kMore;
    piece_.resize(piece_.size() - tags_.value_end.size());
    place_ = Place::kArguments;
    return add_string();
  }

  // Outside of texts. A word is a key or a value by what stands behind it.
  State argument(char c) {
    constexpr std::string_view kBetweenWords = "{}[],:";
    if (c == '"') return State::kBroken;
    if (kBetweenWords.find(c) == std::string_view::npos) {
      if (!piece_.empty() || !is_json_space(c)) piece_ += c;
      if (piece_ == tags_.value_begin) {
        piece_.clear();
        place_ = Place::kText;
      }
      return State::kMore;
    }
    piece_.resize(trim_json_space_right(piece_).size());
    if (!piece_.empty()) {
      const State state = c == ':' ? add_string() : add(json_literal(std::exchange(piece_, {})));
      if (state != State::kMore) return state;
    }
    if (c == ':') return add(": ");
    if (c == ',') return add(", ");
    return add({&c, 1});
  }

  State add_string() {
    std::string json;
    append_json_string(piece_, json);
    piece_.clear();
    return add(json);
  }

  // JSON's grammar is that of the arguments, once words and texts are JSON.
  State add(std::string_view json) {
    arguments_ += json;
    for (const char c : json) {
      const auto outcome = scanner_.take(c);
      if (outcome == JsonScanner::Outcome::kBad) return State::kBroken;
      if (outcome == JsonScanner::Outcome::kLast) return State::kDone;
    }
    return State::kMore;
  }

  CallContext context_;
  const CallTags& tags_;
  Place place_ = Place::kHeader;
  std::string header_;
  std::string piece_;  // the word or text that is being read
  std::string arguments_;
  JsonScanner scanner_;
};

}  // namespace

std::unique_ptr<CallReader> make_escaped_reader(const CallContext& context) {
  return std::make_unique<EscapedReader>(context);
}

}  // namespace bp::text::chat
