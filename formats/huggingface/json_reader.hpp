#pragma once
// Reading strict JSON value by value, without building a document: RFC 8259, UTF-8, no member
// twice in an object, a bounded depth. The first broken rule is kept, and from then on every call
// says that nothing follows.

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace bp::huggingface {

enum class JsonKind { kNothing, kNull, kBool, kNumber, kString, kArray, kObject };

// As narrow as it goes: unsigned, then signed, then double.
using JsonNumber = std::variant<uint64_t, int64_t, double>;

class JsonReader {
 public:
  // The text outlives the reader; first_offset is where it begins in its file.
  explicit JsonReader(std::string_view text, uint64_t first_offset = 0)
      : text_(text), first_offset_(first_offset) {}

  [[nodiscard]] bool ok() const { return fault_.empty(); }
  // "offset 24: ..."; empty while ok.
  [[nodiscard]] const std::string& fault() const { return fault_; }
  // Keeps the rule as the fault if it is broken and the first to be; answers ok().
  bool require(bool holds, const std::string& rule);

  // What kind of value follows; kNothing after a fault or the end.
  JsonKind peek();

  // An object is enter_object, then next_member until it is false, reading each member's value.
  bool enter_object();
  bool next_member(std::string& key);
  // Likewise an array.
  bool enter_array();
  bool next_element();

  std::string read_string();
  JsonNumber read_number();
  uint64_t read_u64(std::string_view what);
  bool read_bool();
  void skip_value();
  // Of what follows; before it peek() has passed over white space.
  [[nodiscard]] size_t position() const { return at_; }
  // What has been read since then.
  [[nodiscard]] std::string_view text_from(size_t begin) const {
    return text_.substr(begin, at_ - begin);
  }
  // Nothing but white space may follow.
  bool expect_end();

 private:
  struct Level {
    bool is_object;
    bool is_first = true;
    std::set<std::string> keys = {};  // a tree: hashed keys can be made to collide
  };

  void skip_space();
  [[nodiscard]] char next() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c, const char* rule);
  bool enter(char bracket, bool is_object);
  bool continue_level(char closing);
  bool take_word(std::string_view word);
  void read_escape(std::string& out);
  uint32_t read_hex4();
  [[nodiscard]] std::string_view number_text();

  std::string_view text_;
  uint64_t first_offset_;
  size_t at_ = 0;
  std::vector<Level> levels_;
  std::string fault_;
};

}  // namespace bp::huggingface
