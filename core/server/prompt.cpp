#include "core/server/prompt.hpp"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/text/utf8.hpp"

namespace bp::server {

namespace {

using Json = nlohmann::ordered_json;

// A mark is set before each control token that the caller's words spell out. It travels through the
// template and is taken out of the outcome. Marks are noncharacters, which no text has a use for;
// the 32 from U+FDD0 are EF B7 90 to EF B7 AF in UTF-8.
constexpr std::string_view kMarkPrefix = "\xEF\xB7";
constexpr char32_t kFirstMarkCharacter = 0xFDD0;
constexpr uint8_t kFirstMark = 0x90;
constexpr uint32_t kNMarks = 32;

class Marker {
 public:
  explicit Marker(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {
    for_template_.cut_off = [this](std::string_view text) { return cut_off_texts(text); };
  }
  Marker(const Marker&) = delete;
  Marker& operator=(const Marker&) = delete;

  // Chooses a mark that the words do not hold.
  Status choose(const Json& words) {
    uint32_t used = 0;
    collect_used(words, used);
    uint32_t i = 0;
    while (i < kNMarks && (used >> i & 1) != 0) ++i;
    if (i == kNMarks) return invalid_argument("the messages hold every character U+FDD0 to U+FDEF");
    mark_ = std::string(kMarkPrefix) + static_cast<char>(kFirstMark + i);
    for_template_.character = kFirstMarkCharacter + i;
    return {};
  }

  void mark(Json& words) const {
    if (words.is_string()) {
      mark(*words.get_ptr<std::string*>());
    } else if (words.is_array()) {
      for (Json& entry : words) mark(entry);
    } else if (words.is_object()) {
      mark_members(words);
    }
  }

  [[nodiscard]] const text::jinja::Mark& for_template() const { return for_template_; }

  RenderedChat take_out(std::string_view text) const {
    RenderedChat rendered;
    for (size_t at = 0; at < text.size();) {
      const size_t next = std::min(text.find(mark_, at), text.size());
      rendered.text += text.substr(at, next - at);
      if (next < text.size()) rendered.plain_at.push_back(rendered.text.size());
      at = next + mark_.size();
    }
    return rendered;
  }

 private:
  // Those of the control texts that the end cuts off.
  [[nodiscard]] std::vector<size_t> cut_off_texts(std::string_view text) const {
    constexpr size_t kLongest = text::SpecialTokens::kMaxTextBytes;
    const size_t skipped = text.size() - std::min(text.size(), kLongest);
    std::vector<size_t> offsets = tokenizer_.control_texts(text.substr(skipped));
    if (offsets.empty()) return offsets;
    // No control text goes on with a byte that UTF-8 does not have.
    const std::string ended = std::string(text.substr(skipped)) + '\xFF';
    const std::vector<size_t> whole = tokenizer_.control_texts(ended);
    std::erase_if(offsets, [&](size_t at) { return std::ranges::binary_search(whole, at); });
    for (size_t& offset : offsets) offset += skipped;
    return offsets;
  }

  static void collect_used(const Json& words, uint32_t& used) {
    if (words.is_string()) collect_used(words.get_ref<const std::string&>(), used);
    if (!words.is_structured()) return;
    for (const auto& [key, value] : words.items()) {
      if (words.is_object()) collect_used(key, used);
      collect_used(value, used);
    }
  }
  static void collect_used(const std::string& text, uint32_t& used) {
    size_t at = text.find(kMarkPrefix);
    while (at != std::string::npos && at + 2 < text.size()) {
      const auto last = static_cast<uint8_t>(text[at + 2]);
      if (last >= kFirstMark && last < kFirstMark + kNMarks) used |= 1U << (last - kFirstMark);
      at = text.find(kMarkPrefix, at + 2);
    }
  }

  void mark(std::string& text) const {
    const std::vector<size_t> offsets = tokenizer_.control_texts(text);
    if (offsets.empty()) return;
    std::string marked;
    size_t at = 0;
    for (const size_t offset : offsets) {
      marked.append(text, at, offset - at);
      marked += mark_;
      at = offset;
    }
    marked.append(text, at);
    text = std::move(marked);
  }

  // Keys are words, too: of tool calls' arguments.
  void mark_members(Json& object) const {
    Json::object_t marked;
    for (auto& [key, value] : *object.get_ptr<Json::object_t*>()) {
      std::string name = key;
      mark(name);
      mark(value);
      // Below ordered_json's own insertion, which would look through all keys before.
      marked.Container::emplace_back(std::move(name), std::move(value));
    }
    object = std::move(marked);
  }

  const text::Tokenizer& tokenizer_;
  std::string mark_;
  text::jinja::Mark for_template_{};
};

}  // namespace

Result<RenderedChat> render_chat(const text::ChatTemplate& chat_template,
                                 const text::Tokenizer& tokenizer, Json variables) {
  Marker marker(tokenizer);
  BP_TRY(marker.choose(variables));
  marker.mark(variables);
  BP_ASSIGN(const std::string text,
            chat_template.render(variables, text::local_clock(), &marker.for_template()));
  return marker.take_out(text);
}

std::vector<int32_t> encode_prompt(const text::Tokenizer& tokenizer, std::string_view text,
                                   std::span<const size_t> plain_at, bool add_bos) {
  const text::EncodeOptions options{
      .add_special = false, .parse_special = true, .plain_at = plain_at};
  std::vector<int32_t> ids = tokenizer.encode(text, options);
  // Chat templates write it themselves, as a rule.
  const auto prefix = tokenizer.prefix();
  const bool has_prefix =
      std::ranges::equal(prefix, std::span(ids).first(std::min(ids.size(), prefix.size())));
  if (add_bos && !has_prefix) ids.insert(ids.begin(), prefix.begin(), prefix.end());
  return ids;
}

size_t max_prompt_bytes(const text::Tokenizer& tokenizer, uint32_t context) {
  size_t longest = 1;
  for (int32_t id = 0; id < tokenizer.vocabulary().n_tokens(); ++id) {
    longest = std::max(longest, tokenizer.token_bytes(id, true).size());
  }
  return longest * context;
}

}  // namespace bp::server
