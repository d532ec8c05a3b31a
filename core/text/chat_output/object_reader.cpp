// {"name": NAME, "arguments": {..}} in any order of keys, or an array of such objects.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "core/text/chat_output/call_reader.hpp"
#include "core/text/chat_output/json_scanner.hpp"

namespace bp::text::chat {

namespace {

constexpr size_t kMaxHeldBytes = 1 << 20;  // of arguments that stand before the name

class ObjectReader : public CallReader {
 public:
  explicit ObjectReader(const CallContext& context) : context_(context) {}

  State read(std::string_view text, size_t& n_read, EventWriter& out) override {
    while (n_read < text.size()) {
      if (place_ == Place::kRest) return rest(text, n_read, out);
      const Step step = take(text[n_read], out);
      if (step == Step::kBroken) {
        if (!streams_) return State::kBroken;
        // The call has begun: what follows is its arguments as the model wrote them.
        out.arguments(std::exchange(piece_, {}));
        if (context_.end.empty()) return State::kBroken;
        place_ = Place::kRest;
        continue;
      }
      if (step != Step::kAgain) ++n_read;
      if (step == Step::kDone) return State::kDone;
    }
    out.arguments(std::exchange(piece_, {}));
    return State::kMore;
  }

 private:
  enum class Step : uint8_t { kTaken, kAgain, kDone, kBroken };
  enum class Place : uint8_t {
    kStart,
    kItem,
    kKeyOrEnd,
    kKey,
    kColon,
    kValue,
    kNext,
    kBehind,
    kRest
  };
  enum class Role : uint8_t { kOther, kName, kArguments };

  Step take(char c, EventWriter& out) {
    const bool in_value = place_ == Place::kKey || place_ == Place::kValue;
    if (!(in_value && scanner_) && is_json_space(c)) return Step::kTaken;
    switch (place_) {
      case Place::kStart:
        if (c == '[' && !in_array_) {
          in_array_ = true;
          place_ = Place::kItem;
          return Step::kTaken;
        }
        [[fallthrough]];
      case Place::kItem:
        return go(c == '{', Place::kKeyOrEnd);
      case Place::kKeyOrEnd:
        if (c == '}') return end_object(out);
        if (c != '"') return Step::kBroken;
        place_ = Place::kKey;
        scanner_.emplace();
        text_.clear();
        [[fallthrough]];
      case Place::kKey:
        return in_key(c);
      case Place::kColon:
        return go(c == ':', Place::kValue);
      case Place::kValue:
        return scanner_ ? in_value_of_role(c, out) : begin_value(c, out);
      case Place::kNext:
        if (c == '}') return end_object(out);
        return go(c == ',', Place::kKeyOrEnd);
      default:
        return behind(c);
    }
  }

  Step go(bool expected, Place next) {
    if (!expected) return Step::kBroken;
    place_ = next;
    return Step::kTaken;
  }

  Step behind(char c) {
    if (c == ']') return Step::kDone;
    return go(c == ',', Place::kItem);
  }

  Step in_key(char c) {
    text_ += c;
    const auto outcome = scanner_->take(c);
    if (outcome == JsonScanner::Outcome::kBad || text_.size() > 8 * kMaxNameBytes) {
      return Step::kBroken;
    }
    if (outcome != JsonScanner::Outcome::kLast) return Step::kTaken;
    scanner_.reset();
    if (!decode_json_string(text_, key_)) return Step::kBroken;
    place_ = Place::kColon;
    return Step::kTaken;
  }

  Role role_of_key(char c) {
    if (context_.syntax.name_key.empty()) return name_.empty() ? Role::kArguments : Role::kOther;
    if (key_ == context_.syntax.name_key) return Role::kName;
    if (key_ == "function" && c == '"') return Role::kName;
    if (key_ == "arguments" || key_ == "parameters") return Role::kArguments;
    return Role::kOther;
  }

  Step begin_value(char c, EventWriter& out) {
    role_ = role_of_key(c);
    if (key_ == "function" && c == '{' && !in_function_) {
      in_function_ = true;
      place_ = Place::kKeyOrEnd;
      return Step::kTaken;
    }
    const bool is_known = role_ != Role::kOther || key_ == "type" || key_ == "id";
    if (context_.syntax.only_known_tools && !is_known) return Step::kBroken;
    if (role_ == Role::kArguments) {
      if (has_arguments_) return Step::kBroken;
      if (context_.syntax.name_key.empty()) name_ = key_;
      if (c != '{' && c != '"' && c != 'n') return Step::kBroken;
      arguments_are_object_ = c == '{';
      if (arguments_are_object_ && !name_.empty()) {
        if (!begin_call(out)) return Step::kBroken;
        streams_ = true;
      }
    }
    scanner_.emplace();
    text_.clear();
    return in_value_of_role(c, out);
  }

  Step in_value_of_role(char c, EventWriter& out) {
    const auto outcome = scanner_->take(c);
    if (outcome == JsonScanner::Outcome::kBad) return Step::kBroken;
    const bool is_past = outcome == JsonScanner::Outcome::kPast;
    if (!is_past) keep(c);
    if (text_.size() > kMaxHeldBytes) return Step::kBroken;
    if (outcome == JsonScanner::Outcome::kInside) return Step::kTaken;
    scanner_.reset();
    place_ = Place::kNext;
    if (!end_value(out)) return Step::kBroken;
    return is_past ? Step::kAgain : Step::kTaken;
  }

  void keep(char c) {
    if (streams_) {
      piece_ += c;
    } else if (role_ != Role::kOther) {
      text_ += c;
    }
  }

  bool end_value(EventWriter& out) {
    if (role_ == Role::kName) return end_name(out);
    if (role_ != Role::kArguments) return true;
    has_arguments_ = true;
    if (streams_) {
      out.arguments(std::exchange(piece_, {}));
      streams_ = false;
      return true;
    }
    if (arguments_are_object_) {
      held_ = text_;
    } else if (text_ == "null") {
      held_ = "{}";
    } else if (!decode_json_string(text_, held_)) {
      return false;
    }
    return name_.empty() || begin_call(out);
  }

  bool end_name(EventWriter& out) {
    if (!name_.empty() || !decode_json_string(text_, name_)) return false;
    if (!may_call(context_, name_)) return false;
    return !has_arguments_ || begin_call(out);
  }

  bool begin_call(EventWriter& out) {
    if (!may_call(context_, name_)) return false;
    out.begin_call(name_);
    out.arguments(std::exchange(held_, {}));
    return true;
  }

  Step end_object(EventWriter& out) {
    if (in_function_) {
      in_function_ = false;
      place_ = Place::kNext;
      return Step::kTaken;
    }
    if (!has_arguments_ && (name_.empty() || context_.syntax.only_known_tools)) {
      return Step::kBroken;
    }
    if (name_.empty()) return Step::kBroken;
    if (!has_arguments_) {
      held_ = "{}";
      if (!begin_call(out)) return Step::kBroken;
    }
    out.end_call();
    name_.clear();
    has_arguments_ = false;
    place_ = Place::kBehind;
    return in_array_ ? Step::kTaken : Step::kDone;
  }

  // To the text behind calls, which is not read, or for ever.
  State rest(std::string_view text, size_t& n_read, EventWriter& out) {
    const size_t end = text.find(context_.end, n_read);
    if (end != std::string_view::npos) {
      out.arguments(text.substr(n_read, end - n_read));
      n_read = end;
      out.end_call();
      return State::kDone;
    }
    size_t n_kept = std::min(context_.end.size() - 1, text.size() - n_read);
    while (!context_.end.starts_with(text.substr(text.size() - n_kept))) --n_kept;
    out.arguments(text.substr(n_read, text.size() - n_kept - n_read));
    n_read = text.size() - n_kept;
    return State::kMore;
  }

  CallContext context_;
  Place place_ = Place::kStart;
  std::optional<JsonScanner> scanner_;
  bool in_array_ = false;
  bool in_function_ = false;  // {"type": "function", "function": {..}}
  std::string key_;
  Role role_ = Role::kOther;
  std::string text_;   // of the key, the name or arguments that cannot go out yet
  std::string name_;   // of this object's function
  std::string held_;   // its arguments until the name is known
  std::string piece_;  // of its arguments, going out
  bool has_arguments_ = false;
  bool arguments_are_object_ = false;
  bool streams_ = false;
};

}  // namespace

std::unique_ptr<CallReader> make_object_reader(const CallContext& context) {
  return std::make_unique<ObjectReader>(context);
}

}  // namespace bp::text::chat
