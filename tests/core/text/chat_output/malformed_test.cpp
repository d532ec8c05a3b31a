// Answers of models that err: content, or a call with what they wrote; never anything lost or
// invented.

#include <random>

#include "core/text/utf8.hpp"
#include "reading.hpp"

namespace bp::text::chat::testing {
namespace {

TEST(Malformed, StaysContent) {
  const std::pair<const char*, const char*> cases[] = {
      {"hermes", "<tool_call"},
      {"hermes", "<tool_call>"},
      {"hermes", "Wait \n<tool_call>\n"},
      {"hermes", "a <tool_call> {\"name\": \"get"},
      {"hermes", "<tool_call>{\"nam\": 1}</tool_call>"},
      {"hermes", "<tool_call>{\"name\": 7}</tool_call>"},
      {"hermes", "<tool_call>{\"name\": \"a b\", \"arguments\": {}}</tool_call>"},
      {"hermes", "<tool_call>{\"name\": \"a\", \"arguments\": 3}</tool_call>"},
      {"hermes", "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>"},
      {"hermes", "<tool_call>[]</tool_call>"},
      {"hermes", "<tool_call>{'name': 'get_time'}</tool_call>"},
      {"hermes", "<tool_call>{\"name\": \"\\ud800\"}</tool_call>"},
      {"hermes", "<tool_call>get_weather</tool_call>"},
      {"hermes", "  \n x \n\n "},
      {"qwen3-coder", "<tool_call>\n<function=>\n</function>"},
      {"qwen3-coder", "<tool_call>\n<function=get_time\n"},
      {"qwen3-coder", "<function=a b></function>"},
      {"glm", "<tool_call></tool_call>"},
      {"mistral", "[TOOL_CALLS]"},
      {"mistral", "[TOOL_CALLS]get weather[ARGS]{}"},
      {"mistral", "[TOOL_CALLS][1]"},
      {"deepseek-v3", "<｜tool▁calls▁begin｜> nothing"},
      {"deepseek-v3", "<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>"},
      {"llama3", "[get_weather(city=]"},
      {"llama3", "[get_weather(city=\"a\" \"b\", c=x)]"},
      {"llama3", "get_weather"},
      {"gpt-oss", "<|channel|>analysis"},
      {"gemma", "```tool_code\nget_weather(1, 2, 3, 4)\n```"},
      {"functionary-v3.1", "<function=get_time>[]</function>"},
      {"functiongemma", "<start_function_call>call:f{a:<escape>b<escape>"},
      {"functiongemma", "<start_function_call>call:f{a:<escape>b}"},
      {"functiongemma", "<start_function_call>call:f{a:b}"},
      {"functiongemma", "<start_function_call>call:f{a}"},
      {"functiongemma", "<start_function_call>call:f{a:1,}"},
      {"functiongemma", "<start_function_call>call:f{:1}"},
      {"functiongemma", "<start_function_call>call:f{a:<escape>b<escape>c}"},
      {"functiongemma", "<start_function_call>call:f{a:b<escape>c<escape>}"},
      {"functiongemma", "<start_function_call>call:f{a:1 2}"},
      {"functiongemma", "<start_function_call>call:f{a:[1}}"},
      {"functiongemma", "<start_function_call>call:f{a:\"b\"}"},
      {"functiongemma", "<start_function_call>call:{}"},
      {"functiongemma", "<start_function_call>call:f g{}"},
      {"functiongemma", "<start_function_call>call:f[]"},
      {"functiongemma", "<start_function_call>calls:f{}"},
      {"functiongemma", "<start_function_call>f{}"},
      {"functiongemma", "<start_function_call>call:"},
      {"functiongemma", "<start_function_call>call:f{a:b}<end_function_call> So."},
  };
  for (const auto& [dialect, text] : cases) {
    EXPECT_EQ(read_all_ways(settings_of(dialect), text), Message{text}) << dialect;
  }
}

// A call whose name is known stays a call; its arguments are what was written.
TEST(Malformed, ArgumentsAreWhatTheModelWrote) {
  EXPECT_EQ(read_all_ways(settings_of("hermes"),
                          R"(<tool_call>{"name": "f", "arguments": {"a": True}}</tool_call> So.)"),
            (Message{"So.", "", {{"f", R"({"a": True}})"}}}));
  EXPECT_EQ(
      read_all_ways(settings_of("hermes"), R"(<tool_call>{"name": "f", "arguments": {"a": [1)"),
      (Message{"", "", {{"f", R"({"a": [1)"}}}));
  EXPECT_EQ(read_all_ways(settings_of("qwen3-coder"),
                          "<function=f><parameter=a>1</parameter><parameter=b>2"),
            (Message{"", "", {{"f", R"({"a": 1})"}}}));
  EXPECT_EQ(read_all_ways(settings_of("gpt-oss"),
                          "<|channel|>commentary to=functions.f<|message|>not JSON<|call|>"),
            (Message{"", "", {{"f", "not JSON"}}}));
}

TEST(Malformed, NestingIsBounded) {
  for (const size_t depth : {10U, 1000U}) {
    const std::string value = std::string(depth, '[') + std::string(depth, ']');
    const std::string json = R"(<tool_call>{"name": "f", "arguments": {"a": )" + value + "}}";
    const Message read = read_pieces(settings_of("hermes"), json, {});
    ASSERT_EQ(read.calls.size(), 1U);
    const std::string python = "<|tool_call_start|>[f(a=" + value + ")]";
    const std::string escaped = "<start_function_call>call:f{a:" + value + "}";
    const size_t n_calls = depth < 64 ? 1 : 0;
    EXPECT_EQ(read_pieces(settings_of("lfm2"), python, {}).calls.size(), n_calls);
    EXPECT_EQ(read_pieces(settings_of("functiongemma"), escaped, {}).calls.size(), n_calls);
  }
}

bool is_utf8(std::string_view text) {
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p < end) {
    const Utf8Char c = decode_utf8(p, end);
    if (c.form != Utf8Form::kValid) return false;
    p += c.size;
  }
  return true;
}

std::vector<std::string> pieces_of(const Dialect& dialect) {
  std::vector<std::string> pieces = marker_texts(dialect, /*with_calls=*/true);
  for (const CallSyntax& call : dialect.calls) pieces.emplace_back(call.begin);
  for (const char* piece : {"{",
                            "}",
                            "[",
                            "]",
                            "\"name\"",
                            "\"arguments\"",
                            ": ",
                            ", ",
                            "\"get_time\"",
                            "get_time",
                            "get_weather(",
                            ")",
                            "city=",
                            "\"",
                            "\\",
                            "'",
                            "ü",
                            "🚀",
                            " ",
                            "\n",
                            "to=functions.f",
                            "f",
                            "final",
                            "analysis",
                            "{\"name\": \"f\", \"arguments\": {",
                            "null",
                            "1",
                            "<",
                            "call:f{a:<escape>",
                            "all\n"}) {
    pieces.emplace_back(piece);
  }
  return pieces;
}

// Answers out of the words of each dialect, at random.
TEST(Malformed, RandomAnswersAreReadAlikeHoweverTheyAreCut) {
  std::mt19937 random(1);
  const auto below = [&random](size_t n) { return random() % n; };
  for (const Dialect& dialect : dialects()) {
    const auto pieces = pieces_of(dialect);
    const OutputSettings settings = settings_of(dialect.name);
    for (int round = 0; round < 400; ++round) {
      std::string text;
      for (size_t n = below(14); n > 0; --n) text += pieces[below(pieces.size())];
      const Message whole = read_pieces(settings, text, {});
      std::vector<size_t> every;
      for (size_t i = 1; i < text.size(); ++i) every.push_back(i);
      ASSERT_EQ(read_pieces(settings, text, every), whole) << dialect.name << ": " << text;
      std::vector<size_t> some;
      for (const size_t cut : every) {
        if (below(4) == 0) some.push_back(cut);
      }
      ASSERT_EQ(read_pieces(settings, text, some), whole) << dialect.name << ": " << text;
      ASSERT_TRUE(is_utf8(whole.content) && is_utf8(whole.reasoning)) << text;
      for (const Call& call : whole.calls) {
        ASSERT_TRUE(is_utf8(call.arguments)) << text;
        ASSERT_LE(call.name.size(), 64U);
      }
      const bool is_plain = whole.calls.empty() && whole.reasoning.empty() && !dialect.is_harmony &&
                            dialect.dropped.empty() && dialect.reasoning_begin.empty();
      ASSERT_TRUE(!is_plain || whole.content == text) << dialect.name << ": " << text;
    }
  }
}

// Beginnings of reasoning and of calls' arguments.
std::vector<std::string> begins_of(const Dialect& dialect) {
  std::vector<std::string> begins = {"", std::string(dialect.reasoning_begin)};
  for (const CallSyntax& call : dialect.calls) {
    const CallTags& tags = call.tags;
    std::string begin(call.begin);
    if (call.shape == CallShape::kObjects) begin += R"({"arguments": {"zone": ")";
    if (call.shape == CallShape::kPython) begin += "[get_time(zone='";
    if (call.shape == CallShape::kEscaped) {
      begin += std::string(tags.name_begin) + "get_time{zone:" + std::string(tags.value_begin);
    }
    if (call.shape == CallShape::kTagged) {
      begin += std::string(tags.name_begin) + "get_time" + std::string(tags.name_end) +
               std::string(tags.key_begin) + "zone" + std::string(tags.key_end) +
               std::string(tags.value_begin);
    }
    begins.push_back(begin);
  }
  return begins;
}

// Long answers take time in proportion: a quadratic reader would take minutes.
TEST(Malformed, LongAnswersAreLinear) {
  const std::string space(1 << 19, ' ');
  for (const Dialect& dialect : dialects()) {
    const OutputSettings settings = settings_of(dialect.name);
    for (const std::string& begin : begins_of(dialect)) {
      const auto parser = OutputParser::create(settings);
      Reading reading;
      reading.add(parser->push(begin));
      for (size_t i = 0; i < 20'000; ++i) reading.add(parser->push(i % 1000 == 0 ? "<" : "  x"));
      reading.add(parser->push(space));
      reading.add(parser->finish());
      EXPECT_LE(reading.message().calls.size(), 1U);
    }
  }
}

}  // namespace
}  // namespace bp::text::chat::testing
