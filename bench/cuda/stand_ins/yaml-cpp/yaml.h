#pragma once
// What backplane-conform uses of yaml-cpp, for machines without packages: reads op specs and plugin
// manifests, which are maps, lists in lines and in brackets, quoted and folded scalars. Not a YAML
// parser.

#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace YAML {

struct Mark {};

struct Exception : std::runtime_error {
  Exception(const Mark&, const std::string& message) : std::runtime_error(message) {}
};
struct BadFile : Exception {
  explicit BadFile(const std::string& path) : Exception({}, path) {}
};

class Node {
 public:
  enum class Kind { kUndefined, kNull, kScalar, kList, kMap };
  struct Entry;

  Node() = default;
  [[nodiscard]] bool IsDefined() const { return kind_ != Kind::kUndefined; }
  [[nodiscard]] bool IsMap() const { return kind_ == Kind::kMap; }
  [[nodiscard]] bool IsScalar() const { return kind_ == Kind::kScalar; }
  explicit operator bool() const { return IsDefined(); }
  [[nodiscard]] const std::string& Scalar() const { return text_; }
  [[nodiscard]] YAML::Mark Mark() const { return {}; }

  [[nodiscard]] Node operator[](const std::string& key) const;
  [[nodiscard]] Node operator[](const char* key) const { return (*this)[std::string(key)]; }
  [[nodiscard]] Node operator[](int index) const;

  template <class T>
  [[nodiscard]] T as() const {
    if (!IsScalar()) throw Exception({}, "a value is missing or no scalar");
    return convert<T>(text_);
  }
  template <class T, class U>
  [[nodiscard]] T as(const U& fallback) const {
    return IsScalar() ? convert<T>(text_) : T(fallback);
  }

  [[nodiscard]] std::vector<Entry>::const_iterator begin() const { return entries().begin(); }
  [[nodiscard]] std::vector<Entry>::const_iterator end() const { return entries().end(); }

 private:
  friend class Reader;
  template <class T>
  static T convert(const std::string& text) {
    if constexpr (std::is_same_v<T, std::string>) {
      return text;
    } else if constexpr (std::is_same_v<T, bool>) {
      if (text != "true" && text != "false") throw Exception({}, text + " is no bool");
      return text == "true";
    } else {
      std::istringstream in(text);
      T value{};
      if (!(in >> value) || in.peek() != EOF) throw Exception({}, text + " is no number");
      return value;
    }
  }
  [[nodiscard]] const std::vector<Entry>& entries() const;
  static Node scalar(std::string text);
  void add(const std::string& key, Node value);

  Kind kind_ = Kind::kUndefined;
  std::string text_;
  std::shared_ptr<std::vector<Entry>> entries_;
};

// An item of a list, or first and second of a map.
struct Node::Entry : Node {
  Entry(Node item) : Node(std::move(item)) {}  // NOLINT: implicit
  Entry(Node key, Node value) : first(std::move(key)), second(std::move(value)) {}
  Node first, second;
};

inline const std::vector<Node::Entry>& Node::entries() const {
  static const std::vector<Entry> none;
  return entries_ == nullptr ? none : *entries_;
}
inline Node Node::operator[](const std::string& key) const {
  for (const Entry& entry : entries()) {
    if (kind_ == Kind::kMap && entry.first.text_ == key) return entry.second;
  }
  return {};
}
inline Node Node::operator[](int index) const {
  const auto i = static_cast<size_t>(index);
  if (kind_ != Kind::kList || i >= entries().size()) return {};
  return entries()[i];
}
inline Node Node::scalar(std::string text) {
  Node node;
  node.kind_ = Kind::kScalar;
  node.text_ = std::move(text);
  return node;
}
inline void Node::add(const std::string& key, Node value) {
  if (entries_ == nullptr) entries_ = std::make_shared<std::vector<Entry>>();
  if (kind_ == Kind::kMap) {
    entries_->emplace_back(scalar(key), std::move(value));
  } else {
    entries_->emplace_back(std::move(value));
  }
}

class Reader {
 public:
  explicit Reader(std::istream& in) {
    for (std::string line; std::getline(in, line);) {
      const size_t indent = line.find_first_not_of(' ');
      if (indent == std::string::npos || line[indent] == '#') continue;
      lines_.push_back({indent, line.substr(indent)});
    }
  }
  Node read() { return block(lines_.empty() ? 0 : lines_[0].indent); }

 private:
  struct Line {
    size_t indent;
    std::string text;
  };

  static bool is_item(const std::string& text) {
    return text == "-" || text.compare(0, 2, "- ") == 0;
  }
  // Lines from here on at this indent: a list or a map.
  Node block(size_t indent) {
    Node node;
    if (at_ >= lines_.size()) return node;
    node.kind_ = is_item(lines_[at_].text) ? Node::Kind::kList : Node::Kind::kMap;
    while (at_ < lines_.size() && lines_[at_].indent == indent) {
      Line& line = lines_[at_];
      if (node.kind_ == Node::Kind::kList) {
        node.add("", item(line));
      } else {
        const size_t colon = line.text.find(':');
        if (colon == std::string::npos) throw Exception({}, "no key in: " + line.text);
        const std::string key = line.text.substr(0, colon);
        node.add(key, value(line.text.substr(colon + 1), indent));
      }
    }
    return node;
  }
  // "- x": x is a flow value, or the first line of a map that is indented by two.
  Node item(Line& line) {
    const std::string rest = trim(line.text.substr(1));
    const bool is_map = rest[0] != '{' && rest[0] != '[' && rest[0] != '"' && rest[0] != '\'' &&
                        (rest.find(": ") != std::string::npos || rest.back() == ':');
    if (!is_map) return value(rest, line.indent);
    line.text = rest;
    line.indent += 2;
    return block(line.indent);
  }
  // What follows a key or a dash on the current line, or on the lines below it.
  Node value(const std::string& after, size_t indent) {
    std::string text = trim(without_comment(after));
    ++at_;
    if (text == ">" || text == ">-" || text == "|") return folded(indent);
    if (text.empty()) {
      const bool is_deeper =
          at_ < lines_.size() && (lines_[at_].indent > indent ||
                                  (lines_[at_].indent == indent && is_item(lines_[at_].text)));
      if (is_deeper) return block(lines_[at_].indent);
      Node null;
      null.kind_ = Node::Kind::kNull;
      return null;
    }
    while (is_open(text) && at_ < lines_.size()) text += " " + without_comment(lines_[at_++].text);
    size_t pos = 0;
    return text[0] == '{' || text[0] == '[' ? flow(text, pos) : Node::scalar(unquoted(text));
  }
  Node folded(size_t indent) {
    std::string text;
    while (at_ < lines_.size() && lines_[at_].indent > indent) {
      text += (text.empty() ? "" : " ") + lines_[at_++].text;
    }
    return Node::scalar(text);
  }
  static bool is_open(const std::string& text) {
    int depth = 0;
    char quote = 0, before = 0;  // a quote within a word is an apostrophe
    for (const char c : text) {
      if (quote != 0) {
        if (c == quote) quote = 0;
      } else if ((c == '"' || c == '\'') && std::string("[{,:").find(before) != std::string::npos) {
        quote = c;
      } else {
        depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
      }
      if (c != ' ') before = c;
    }
    return (text[0] == '{' || text[0] == '[') && depth > 0;
  }
  static Node flow(const std::string& text, size_t& pos) {
    skip_spaces(text, pos);
    if (text[pos] != '{' && text[pos] != '[') return Node::scalar(flow_scalar(text, pos));
    const char close = text[pos++] == '{' ? '}' : ']';
    Node node;
    node.kind_ = close == '}' ? Node::Kind::kMap : Node::Kind::kList;
    for (;;) {
      skip_spaces(text, pos);
      if (pos >= text.size()) throw Exception({}, "not closed: " + text);
      if (text[pos] == close) return ++pos, node;
      if (text[pos] == ',') {
        ++pos;
        continue;
      }
      if (close == ']') {
        node.add("", list_item(text, pos));
        continue;
      }
      const std::string key = flow_scalar(text, pos);
      skip_spaces(text, pos);
      if (text[pos] != ':') throw Exception({}, "no colon after " + key + " in: " + text);
      node.add(key, flow(text, ++pos));
    }
  }
  // A value, or a map of one pair without its braces.
  static Node list_item(const std::string& text, size_t& pos) {
    if (text[pos] == '}') throw Exception({}, "a list ends with a brace: " + text);
    Node value = flow(text, pos);
    skip_spaces(text, pos);
    if (pos >= text.size() || text[pos] != ':') return value;
    Node pair;
    pair.kind_ = Node::Kind::kMap;
    pair.add(value.text_, flow(text, ++pos));
    return pair;
  }
  static std::string flow_scalar(const std::string& text, size_t& pos) {
    const size_t begin = pos;
    if (text[pos] == '"' || text[pos] == '\'') {
      const size_t end = text.find(text[begin], begin + 1);
      if (end == std::string::npos) throw Exception({}, "a quote is not closed: " + text);
      pos = end + 1;
    } else {
      while (pos < text.size() && text[pos] != ',' && text[pos] != '}' && text[pos] != ']' &&
             !(text[pos] == ':' && (pos + 1 == text.size() || text[pos + 1] == ' '))) {
        ++pos;
      }
    }
    return unquoted(trim(text.substr(begin, pos - begin)));
  }
  static void skip_spaces(const std::string& text, size_t& pos) {
    while (pos < text.size() && text[pos] == ' ') ++pos;
  }
  static std::string without_comment(const std::string& text) {
    const size_t hash = text.find(" #");
    return hash == std::string::npos ? text : text.substr(0, hash);
  }
  static std::string trim(const std::string& text) {
    const size_t begin = text.find_first_not_of(" \r"), end = text.find_last_not_of(" \r");
    return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
  }
  static std::string unquoted(const std::string& text) {
    const bool is_quoted =
        text.size() > 1 && (text[0] == '"' || text[0] == '\'') && text.back() == text[0];
    return is_quoted ? text.substr(1, text.size() - 2) : text;
  }

  std::vector<Line> lines_;
  size_t at_ = 0;
};

[[nodiscard]] inline Node LoadFile(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw BadFile(path);
  return Reader(in).read();
}

}  // namespace YAML
