#include "core/text/huggingface/splitter.hpp"

#include <algorithm>

#include "core/text/byte_alphabet.hpp"
#include "core/text/huggingface/json_fields.hpp"
#include "core/text/huggingface/published_splits.hpp"
#include "core/text/utf8.hpp"

namespace bp::text::huggingface {
namespace {

constexpr const char* kGpt2Regex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// ASCII symbols count as punctuation, as in BERT.
constexpr const char* kPunctuationRegex = R"([\p{P}$+<=>^`|~])";
// \w+|[^\w\s]+ where \w is as in Unicode's annex on regular expressions.
constexpr const char* kWordsRegex = R"([\w\x{200c}\x{200d}]+|[^\w\x{200c}\x{200d}\s]+)";

bool is_one_character(std::string_view text) {
  return !text.empty() && decode_utf8(text.data(), text.data() + text.size()).size == text.size();
}

bool is_null_or_empty(const Json* json) {
  return json == nullptr || json->is_null();
}

}  // namespace

Result<Splitter> Splitter::parse(const Json* pre_tokenizer) {
  Splitter splitter;
  if (!is_null_or_empty(pre_tokenizer)) {
    BP_TRY(for_each_step(*pre_tokenizer, "pretokenizers",
                         [&](const Json& step) { return splitter.add(step); }));
  }
  splitter.find_plain();
  return splitter;
}

Status Splitter::add(const Json& step) {
  const std::string type = type_of(step);
  note(step, type);
  if (is_byte_level_ && !ends_in_alphabet_) {
    steps_.emplace_back().kind = Kind::kToAlphabet;
    ends_in_alphabet_ = true;
  }
  if (type == "ByteLevel") {
    if (is_byte_level_) return unsupported("tokenizer.json: ByteLevel stands twice");
    is_byte_level_ = true;
    if (flag_of(step, "add_prefix_space", true)) {
      steps_.emplace_back().kind = Kind::kPrefixSpace;
    }
    if (!flag_of(step, "use_regex", true)) return {};
    return add_split(Pattern::of_regex(kGpt2Regex), Behavior::kIsolated);
  }
  if (type == "Split") {
    BP_ASSIGN(const Behavior behavior, behavior_of(step, "Isolated"));
    const Json* pattern = member(step, "pattern");
    const auto finders = pattern == nullptr ? std::span<const PieceFinder>()
                                            : piece_finders_of(text_of(*pattern, "Regex"));
    if (behavior != Behavior::kIsolated || finders.size() < 2) {
      return add_split(Pattern::parse(step), behavior, flag_of(step, "invert"));
    }
    for (const PieceFinder finder : finders) {
      BP_TRY(add_split(Pattern::of_finder(finder), Behavior::kIsolated));
    }
    return {};
  }
  if (type == "Metaspace") return add_metaspace(step);
  if (type == "Digits") {
    const bool alone = flag_of(step, "individual_digits");
    return add_split(Pattern::of_regex(alone ? R"(\p{N})" : R"(\p{N}+)"), Behavior::kIsolated);
  }
  if (type == "Punctuation") {
    BP_ASSIGN(const Behavior behavior, behavior_of(step, "Isolated"));
    return add_split(Pattern::of_regex(kPunctuationRegex), behavior);
  }
  if (type == "Whitespace") {
    return add_split(Pattern::of_regex(kWordsRegex), Behavior::kRemoved, true);
  }
  if (type == "WhitespaceSplit" || type == "BertPreTokenizer") {
    BP_TRY(add_split(Pattern::of_regex(R"(\s+)"), Behavior::kRemoved));
    if (type == "WhitespaceSplit") return {};
    return add_split(Pattern::of_regex(kPunctuationRegex), Behavior::kIsolated);
  }
  if (type == "CharDelimiterSplit") {
    return add_split(Pattern::of_text(text_of(step, "delimiter", " ")), Behavior::kRemoved);
  }
  return unknown_type("a pre_tokenizer", type);
}

void Splitter::note(const Json& step, const std::string& type) {
  std::string written;
  if (type == "ByteLevel") {
    if (flag_of(step, "add_prefix_space", true)) written_.emplace_back();
    if (!flag_of(step, "use_regex", true)) return;
    written = type;
  } else if (type == "Digits") {
    written = flag_of(step, "individual_digits") ? R"(\p{N})" : R"(\p{N}+)";
  } else if (type == "Punctuation") {
    written = "Punctuation " + text_of(step, "behavior", "Isolated");
  } else if (type == "Split" && text_of(step, "behavior", "Isolated") == "Isolated") {
    if (const Json* pattern = member(step, "pattern")) written = text_of(*pattern, "Regex");
  }
  // A step behind a ByteLevel that splits nothing sees other characters all the same.
  const bool byte_level_splits = std::ranges::find(written_, "ByteLevel") != written_.end();
  if (type != "ByteLevel" && is_byte_level_ && !byte_level_splits) written_.emplace_back();
  written_.push_back(std::move(written));
}

Status Splitter::add_split(Result<Pattern> pattern, Behavior behavior, bool inverted) {
  if (!pattern.ok()) return pattern.status();
  Step step;
  step.pattern = *std::move(pattern);
  step.behavior = behavior;
  step.inverted = inverted;
  steps_.push_back(std::move(step));
  return {};
}

Status Splitter::add_metaspace(const Json& json) {
  // With splits between, each may double the text.
  if (std::ranges::find(steps_, Kind::kMetaspace, &Step::kind) != steps_.end()) {
    return unsupported("tokenizer.json: Metaspace stands twice");
  }
  Step step;
  step.kind = Kind::kMetaspace;
  step.replacement = text_of(json, "replacement", "\xE2\x96\x81");
  if (!step.replacement.empty() && !is_one_character(step.replacement)) {
    return invalid_argument("tokenizer.json: the replacement of Metaspace is no single character");
  }
  step.splits = flag_of(json, "split", true);
  const std::string scheme =
      text_of(json, "prepend_scheme", flag_of(json, "add_prefix_space", true) ? "always" : "never");
  step.prepend = scheme == "always"  ? Prepend::kAlways
                 : scheme == "first" ? Prepend::kFirst
                                     : Prepend::kNever;
  steps_.push_back(std::move(step));
  return {};
}

Result<Splitter::Behavior> Splitter::behavior_of(const Json& step, const char* fallback) {
  const std::string name = text_of(step, "behavior", fallback);
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "Contiguous") return Behavior::kContiguous;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  return unknown_type("a split's behavior", name);
}

bool Splitter::prepends_always() const {
  return std::ranges::any_of(steps_, [](const Step& step) {
    return step.kind == Kind::kPrefixSpace ||
           (step.kind == Kind::kMetaspace && step.prepend == Prepend::kAlways);
  });
}

void Splitter::find_plain() {
  std::vector<PieceFinder> finders;
  if (const auto name = published_pre_tokenizer(written_); !name.empty() && is_byte_level_) {
    const auto published = PreTokenizer::create(name);
    finders.assign(published->passes().begin(), published->passes().end());
    is_plain_ = true;
    ends_in_alphabet_ = false;
    plain_ = PreTokenizer::of(std::move(finders), false);
    return;
  }
  for (const Step& step : steps_) {
    const bool plain = step.kind == Kind::kSplit && step.behavior == Behavior::kIsolated;
    if (!plain || step.pattern.finder() == nullptr) return;
    finders.push_back(step.pattern.finder());
  }
  is_plain_ = true;
  plain_ = PreTokenizer::of(std::move(finders), false);
}

std::vector<Splitter::Span> Splitter::spans_of(const Step& step, std::string_view piece) {
  std::vector<Span> spans;
  size_t at = 0;
  while (at < piece.size()) {
    const auto match = step.pattern.find(piece, at);
    const size_t begin = match.begin == match.end ? piece.size() : match.begin;
    if (at < begin) spans.push_back({at, begin, step.inverted});
    if (begin == piece.size()) break;
    spans.push_back({begin, match.end, !step.inverted});
    at = match.end;
  }
  return spans;
}

void Splitter::apply_split(const Step& step, std::string_view piece,
                           std::vector<std::string>& out) {
  std::vector<Span> spans = spans_of(step, piece);
  const bool is_one =
      spans.size() == 1 && !(spans[0].is_match && step.behavior == Behavior::kRemoved);
  if (is_one) return static_cast<void>(out.emplace_back(piece));
  const bool backwards = step.behavior == Behavior::kMergedWithNext;
  if (backwards) std::ranges::reverse(spans);
  std::vector<Span> kept;
  bool last_is_match = false;
  for (const Span& span : spans) {
    bool joins = false;
    switch (step.behavior) {
      case Behavior::kIsolated:
        break;
      case Behavior::kRemoved:
        if (span.is_match) continue;
        break;
      case Behavior::kContiguous:
        joins = !kept.empty() && span.is_match == last_is_match;
        break;
      case Behavior::kMergedWithPrevious:
      case Behavior::kMergedWithNext:
        joins = !kept.empty() && span.is_match && !last_is_match;
        break;
    }
    last_is_match = span.is_match;
    if (!joins) {
      kept.push_back(span);
    } else if (backwards) {
      kept.back().begin = span.begin;
    } else {
      kept.back().end = span.end;
    }
  }
  if (backwards) std::ranges::reverse(kept);
  for (const Span& span : kept) out.emplace_back(piece.substr(span.begin, span.end - span.begin));
}

void Splitter::apply_metaspace(const Step& step, std::string piece, bool at_start,
                               std::vector<std::string>& out) {
  const std::string& mark = step.replacement;
  std::string marked;
  const bool prepends =
      step.prepend == Prepend::kAlways || (step.prepend == Prepend::kFirst && at_start);
  if (prepends && !piece.starts_with(' ') && !piece.starts_with(mark)) marked = mark;
  for (const char c : piece) {
    if (c == ' ') {
      marked += mark;
    } else {
      marked += c;
    }
  }
  if (!step.splits || mark.empty()) {
    out.push_back(std::move(marked));
    return;
  }
  size_t begin = 0;
  for (size_t at = marked.find(mark, 1); at != std::string::npos;
       at = marked.find(mark, at + mark.size())) {
    out.push_back(marked.substr(begin, at - begin));
    begin = at;
  }
  if (begin < marked.size()) out.push_back(marked.substr(begin));
}

std::vector<std::string> Splitter::split(std::string_view text, bool at_start) const {
  std::vector<std::string> pieces{std::string(text)};
  for (const Step& step : steps_) {
    std::vector<std::string> next;
    bool first = at_start;
    for (std::string& piece : pieces) {
      if (step.kind == Kind::kSplit) {
        apply_split(step, piece, next);
      } else if (step.kind == Kind::kMetaspace) {
        apply_metaspace(step, std::move(piece), first, next);
      } else if (step.kind == Kind::kToAlphabet) {
        next.push_back(alphabet_of_bytes(piece));
      } else {
        next.push_back(piece.starts_with(' ') ? std::move(piece) : ' ' + piece);
      }
      first = false;
    }
    pieces = std::move(next);
  }
  if (ends_in_alphabet_) {
    for (std::string& piece : pieces) piece = bytes_of_alphabet(piece);
  }
  return pieces;
}

}  // namespace bp::text::huggingface
