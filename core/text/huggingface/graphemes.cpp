#include "core/text/huggingface/graphemes.hpp"

#include <unicode/uchar.h>

#include "core/text/utf8.hpp"

namespace bp::text::huggingface {
namespace {

struct Character {
  UGraphemeClusterBreak kind;
  bool is_pictograph;
  size_t size;  // bytes
};

Character first_of(std::string_view text) {
  const Utf8Char c = decode_utf8(text.data(), text.data() + text.size());
  if (c.form != Utf8Form::kValid) return {U_GCB_CONTROL, false, c.size};
  const auto value = static_cast<UChar32>(c.value);
  const int32_t kind = u_getIntPropertyValue(value, UCHAR_GRAPHEME_CLUSTER_BREAK);
  return {static_cast<UGraphemeClusterBreak>(kind),
          u_hasBinaryProperty(value, UCHAR_EXTENDED_PICTOGRAPHIC) != 0, c.size};
}

bool is_control(UGraphemeClusterBreak kind) {
  return kind == U_GCB_CONTROL || kind == U_GCB_CR || kind == U_GCB_LF;
}

bool is_syllable(UGraphemeClusterBreak before, UGraphemeClusterBreak kind) {
  const bool ends = kind == U_GCB_T, has_vowel = kind == U_GCB_V || kind == U_GCB_LV;
  if (before == U_GCB_L) return kind == U_GCB_L || has_vowel || kind == U_GCB_LVT;
  if (before == U_GCB_LV || before == U_GCB_V) return kind == U_GCB_V || ends;
  return (before == U_GCB_LVT || before == U_GCB_T) && ends;
}

// What a cluster was so far, up to its last character.
class Cluster {
 public:
  explicit Cluster(const Character& first) : last_(first), pictograph_open_(first.is_pictograph) {}

  [[nodiscard]] bool takes(const Character& next) const {
    const UGraphemeClusterBreak before = last_.kind, kind = next.kind;
    if (is_control(before) || is_control(kind)) return before == U_GCB_CR && kind == U_GCB_LF;
    if (kind == U_GCB_EXTEND || kind == U_GCB_ZWJ || kind == U_GCB_SPACING_MARK) return true;
    if (before == U_GCB_PREPEND || is_syllable(before, kind)) return true;
    if (before == U_GCB_ZWJ) return pictograph_open_ && next.is_pictograph;
    return before == U_GCB_REGIONAL_INDICATOR && kind == before && n_indicators_ % 2 == 1;
  }

  void add(const Character& next) {
    n_indicators_ = next.kind == U_GCB_REGIONAL_INDICATOR ? n_indicators_ + 1 : 0;
    const bool goes_on =
        next.kind == U_GCB_EXTEND || (next.kind == U_GCB_ZWJ && last_.kind != U_GCB_ZWJ);
    pictograph_open_ = next.is_pictograph || (pictograph_open_ && goes_on);
    last_ = next;
  }

 private:
  Character last_;
  bool pictograph_open_;  // a pictograph, then what extends it, then one joiner at most
  int n_indicators_ = last_.kind == U_GCB_REGIONAL_INDICATOR ? 1 : 0;  // at the end
};

}  // namespace

size_t grapheme_size(std::string_view text) {
  const auto is_plain = [&](size_t i) { return text[i] >= ' ' && text[i] <= '~'; };
  if (is_plain(0) && (text.size() == 1 || is_plain(1))) return 1;
  const Character first = first_of(text);
  Cluster cluster(first);
  size_t size = first.size;
  while (size < text.size()) {
    const Character next = first_of(text.substr(size));
    if (!cluster.takes(next)) break;
    cluster.add(next);
    size += next.size;
  }
  return size;
}

}  // namespace bp::text::huggingface
