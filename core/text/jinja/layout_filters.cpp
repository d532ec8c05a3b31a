// Filters that lay text out: wordwrap and xmlattr; and those that are left out, each with the
// reason.

#include <array>
#include <string>

#include "core/text/jinja/builtin.hpp"
#include "core/text/jinja/formatting.hpp"
#include "core/text/jinja/runtime.hpp"
#include "core/text/jinja/text_ops.hpp"
#include "core/text/regex.hpp"

namespace bp::text::jinja {
namespace {

// Where Python's textwrap may break a line: white space, dashes between words, hyphenated words.
const Regex& breaks_at_hyphens() {
  static const Regex regex = *Regex::compile(
      R"re([\t\n\x0b\x0c\r ]+|(?<=[\w!"'&.,?])-{2,}(?=\w))re"
      R"re(|[^\t\n\x0b\x0c\r ]+?(?:-(?:(?<=[^\d\W]{2}-)|(?<=[^\d\W]-[^\d\W]-))(?=[^\d\W]-?[^\d\W]))re"
      R"re(|(?=[\t\n\x0b\x0c\r ]|\z)|(?<=[\w!"'&.,?])(?=-{2,}\w)))re");
  return regex;
}

const Regex& breaks_at_spaces() {
  static const Regex regex = *Regex::compile(R"([\t\n\x0b\x0c\r ]+)");
  return regex;
}

// A text that lines are made of, as code points.
using Chunk = std::u32string;

std::vector<Chunk> chunks_of(std::string_view line, bool break_on_hyphens) {
  const Regex& regex = break_on_hyphens ? breaks_at_hyphens() : breaks_at_spaces();
  std::vector<Chunk> chunks;
  for (size_t at = 0; at < line.size();) {
    const auto match = regex.find(line, at);
    const size_t begin = match.begin == match.end ? line.size() : match.begin;
    if (begin > at) chunks.push_back(decode(line.substr(at, begin - at)));
    if (begin < line.size()) chunks.push_back(decode(line.substr(begin, match.end - begin)));
    at = std::max(begin, match.end);
  }
  return chunks;
}

bool is_blank(const Chunk& chunk) {
  return std::ranges::all_of(chunk, is_space);
}

struct Wrapping {
  size_t width;
  bool break_long_words;
  bool break_on_hyphens;
};

// How much of a word longer than a line goes into what is left of this one.
size_t head_size(const Chunk& word, size_t room, bool break_on_hyphens) {
  if (!break_on_hyphens || word.size() <= room || room == 0) return room;
  const size_t hyphen = word.rfind(U'-', room - 1);
  if (hyphen == Chunk::npos || hyphen == 0) return room;
  const bool has_more = word.substr(0, hyphen).find_first_not_of(U'-') != Chunk::npos;
  return has_more ? hyphen + 1 : room;
}

std::vector<std::string> wrap(std::string_view text, const Wrapping& w) {
  std::vector<Chunk> chunks = chunks_of(text, w.break_on_hyphens);
  std::vector<std::string> lines;
  for (size_t next = 0; next < chunks.size();) {
    if (!lines.empty() && is_blank(chunks[next]) && ++next == chunks.size()) break;
    std::vector<Chunk> line;
    size_t size = 0;
    for (; next < chunks.size() && size + chunks[next].size() <= w.width; ++next) {
      size += chunks[next].size();
      line.push_back(chunks[next]);
    }
    if (next < chunks.size() && chunks[next].size() > w.width) {
      Chunk& word = chunks[next];
      if (w.break_long_words) {
        const size_t head = head_size(word, w.width - size, w.break_on_hyphens);
        line.push_back(word.substr(0, head));
        word.erase(0, head);
      } else if (line.empty()) {
        line.push_back(word);
        ++next;
      }
    }
    if (!line.empty() && is_blank(line.back())) line.pop_back();
    std::string joined;
    for (const Chunk& chunk : line) joined += encode(chunk);
    if (!line.empty()) lines.push_back(std::move(joined));
  }
  return lines;
}

Value wordwrap(Runtime& runtime, const Value& self, BoundArguments& args) {
  require_defined(self);
  auto* text = self.get<Text>();
  if (!text) fail(std::string("wordwrap expects a str, not ") + type_name(self));
  const Integer width = args.integer(0, 79);
  if (width <= 0) fail("invalid width (must be > 0)");
  const Wrapping wrapping = {static_cast<size_t>(std::min<Integer>(width, 1 << 30)),
                             args.flag(1, true), args.flag(3, true)};
  const std::string newline(args.text(2, "\n"));
  runtime.spend_characters(text->str().size() * 4);
  Output out(runtime);
  bool is_first = true;
  const auto append = [&](std::string_view line) {
    if (!is_first) out.append(newline);
    out.append(line);
    is_first = false;
  };
  for (const std::string_view line : split_lines(text->str(), false)) {
    const auto lines = wrap(line, wrapping);
    if (lines.empty()) append("");
    for (const std::string& wrapped : lines) append(wrapped);
  }
  return runtime.text(out.take());
}

Value xmlattr(Runtime& runtime, const Value& self, BoundArguments& args) {
  auto* dict = self.object<Dict>();
  if (!dict) fail(std::string("'") + type_name(self) + "' object has no attribute 'items'");
  const auto escaped = [&](const Value& value) {
    const Text text = to_text(runtime, value);
    runtime.spend_characters(text.str().size());
    return text.markup() ? text.str() : escape_html(text.str());
  };
  Output out(runtime);
  bool separates = args.flag(0, true);
  for (const auto& [key, value] : dict->entries()) {
    if (value.is_none() || value.is_undefined()) continue;
    if (separates) out.append(" ");
    separates = true;
    const std::string name = to_str(runtime, key);
    if (name.find_first_of(" \t\n\v\f\r/>=") != std::string::npos) {
      fail("Invalid character in attribute name: '" + name + "'");
    }
    out.append(escaped(key));
    out.append("=\"");
    out.append(escaped(value));
    out.append("\"");
  }
  return runtime.text(out.take());
}

constexpr Builtin kFilters[] = {
    {"wordwrap", wordwrap, "width break_long_words wrapstring break_on_hyphens"},
    {"xmlattr", xmlattr, "autospace"},
};
static_assert(is_sorted_table(kFilters));

struct LeftOut {
  std::string_view name, reason;
};
constexpr std::array kLeftOut = {
    LeftOut{"pprint", "it prints values for a reader; tojson writes them for a model"},
    LeftOut{"random", "a prompt does not depend on chance"},
    LeftOut{"urlize", "it makes links of a web page"},
};

}  // namespace

std::span<const Builtin> layout_filters() {
  return kFilters;
}

std::string missing_filter(std::string_view name) {
  for (const LeftOut& filter : kLeftOut) {
    if (filter.name != name) continue;
    return "the filter '" + std::string(name) + "' is not supported: " + std::string(filter.reason);
  }
  return "No filter named '" + std::string(name) + "'.";
}

}  // namespace bp::text::jinja
