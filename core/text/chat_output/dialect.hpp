#pragma once
// How families of models write reasoning and tool calls: data, one row for each family.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bp::text::chat {

enum class CallShape : uint8_t {
  kObjects,  // {"name": .., "arguments": {..}}, or an array of them
  kNamed,    // NAME and then {..}
  kTagged,   // the name and each argument between tags
  kPython,   // f(a=1), or a list of such calls
  kEscaped,  // the name and then {a:1}, texts in it between marks
};

// In patterns a blank stands for any white space or none, kName for the function's name and kId for
// letters and digits that mean nothing here.
inline constexpr char kNamePlace = '\1';
inline constexpr char kIdPlace = '\2';

// Tags of kTagged. White space may stand between all of them. Of kEscaped: what stands before the
// name and around texts.
struct CallTags {
  std::string_view name_begin = {},
                   name_end = {};  // no name_end: the name ends where a tag or space begins
  std::string_view key_begin = {}, key_end = {};
  std::string_view value_begin = {}, value_end = {};
  std::string_view end = {};
  // Behind a key: what says that the value is a text, or JSON.
  std::string_view text_mark = {}, json_mark = {};
};

struct CallSyntax {
  // Stands before a call. Empty: the answer itself begins with the call, which is one only if it
  // calls a tool of the request.
  std::string_view begin = {};
  CallShape shape = CallShape::kObjects;
  std::string_view name_key = "name";                // of kObjects; empty: {NAME: {..}}
  std::vector<std::string_view> name_patterns = {};  // of kNamed: what stands before the '{'
  CallTags tags = {};                                // of kTagged and kEscaped
  bool only_known_tools = false;
  bool repeats = false;  // further calls may follow without `begin`
};

// Ids of calls, which templates may show to the model again.
enum class IdForm : uint8_t {
  kRandom,
  kShort,     // 9 letters and digits
  kFunction,  // functions.NAME:N, the conversation's calls being counted from 0
};

struct Dialect {
  std::string_view name;
  // A template belongs to the dialect where it holds all texts of one of the lists.
  std::vector<std::vector<std::string_view>> template_texts = {};
  std::string_view reasoning_begin = {}, reasoning_end = {};
  std::vector<CallSyntax> calls = {};
  std::string_view section_begin = {};           // may stand before all calls
  std::vector<std::string_view> call_ends = {};  // stand behind calls
  std::vector<std::string_view> dropped = {};    // stand in answers and are no part of them
  bool is_wrapped = false;  // those do so around all of an answer, or not at all
  bool is_harmony = false;  // channels: the rest does not apply
  IdForm id_form = IdForm::kRandom;
  [[nodiscard]] bool has_calls() const { return is_harmony || !calls.empty(); }
};

// All of them; "none", under which the answer is content as it is, is the last.
const std::vector<Dialect>& dialects();
// Null where there is none of that name.
const Dialect* find_dialect(std::string_view name);
std::vector<std::string> dialect_names();
// That of a chat template, from the texts it writes.
const Dialect& dialect_of_template(std::string_view source);

// All texts that have a meaning in answers, as pieces. with_calls: also those around calls.
std::vector<std::string> marker_texts(const Dialect& dialect, bool with_calls);

}  // namespace bp::text::chat
