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

// What lines are made of; views of the text.
struct Chunk {
  std::string_view text;
  size_t size = 0;  // code points

  Chunk() = default;
  explicit Chunk(std::string_view part) : text(part), size(count_code_points(part)) {}
  [[nodiscard]] bool is_blank() const { return strip(text).empty(); }
};

// The chunks of a line, one after the other.
class Chunks {
 public:
  Chunks(std::string_view line, bool break_on_hyphens)
      : regex_(break_on_hyphens ? breaks_at_hyphens() : breaks_at_spaces()), line_(line) {
    pop();
  }
  [[nodiscard]] bool empty() const { return front_.text.empty(); }
  [[nodiscard]] const Chunk& front() const { return front_; }

  void pop() {
    if (at_ == break_end_) {
      const auto match = regex_.find(line_, at_);
      break_begin_ = match.begin == match.end ? line_.size() : match.begin;
      break_end_ = std::max(break_begin_, match.end);
    }
    const size_t end = at_ < break_begin_ ? break_begin_ : break_end_;
    front_ = Chunk(line_.substr(at_, end - at_));
    at_ = end;
  }

  // Takes the head of the first away.
  Chunk split_front(size_t n_bytes) {
    const Chunk head(front_.text.substr(0, n_bytes));
    front_.text.remove_prefix(n_bytes);
    front_.size -= head.size;
    return head;
  }

 private:
  const Regex& regex_;
  std::string_view line_;
  size_t at_ = 0;  // behind the first chunk
  size_t break_begin_ = 0, break_end_ = 0;
  Chunk front_;
};

struct Wrapping {
  size_t width;
  bool break_long_words;
  bool break_on_hyphens;
};

// Bytes of a word longer than a line that go into what is left of this one.
size_t head_bytes(std::string_view word, size_t room, bool break_on_hyphens) {
  const std::string_view head = word.substr(0, byte_offset(word, room));
  const size_t hyphen = break_on_hyphens ? head.rfind('-') : std::string_view::npos;
  if (hyphen == std::string_view::npos) return head.size();
  const bool has_more = head.substr(0, hyphen).find_first_not_of('-') != std::string_view::npos;
  return has_more ? hyphen + 1 : head.size();
}

// Calls append(line) for each line; an empty one where there is no other.
template <class Append>
void wrap(Runtime& runtime, std::string_view text, const Wrapping& w, const Append& append) {
  bool has_lines = false;
  for (Chunks chunks(text, w.break_on_hyphens); !chunks.empty();) {
    runtime.spend();
    if (has_lines && chunks.front().is_blank()) chunks.pop();
    if (chunks.empty()) break;
    const char* const begin = chunks.front().text.data();
    Chunk last;
    size_t size = 0, n_bytes = 0;  // of the line
    const auto take = [&](const Chunk& chunk) {
      last = chunk;
      size += chunk.size;
      n_bytes += chunk.text.size();
    };
    for (; !chunks.empty() && size + chunks.front().size <= w.width; chunks.pop()) {
      take(chunks.front());
    }
    if (chunks.front().size > w.width) {
      if (w.break_long_words) {
        const std::string_view word = chunks.front().text;
        take(chunks.split_front(head_bytes(word, w.width - size, w.break_on_hyphens)));
      } else if (n_bytes == 0) {
        take(chunks.front());
        chunks.pop();
      }
    }
    if (last.is_blank()) n_bytes -= last.text.size();
    if (n_bytes == 0) continue;
    append(std::string_view(begin, n_bytes));
    has_lines = true;
  }
  if (!has_lines) append("");
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
    wrap(runtime, line, wrapping, append);
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
