#pragma once
// Reads whole answers, cut into pieces in every way, to a message that is easy to compare.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "core/text/chat_output/output_parser.hpp"

namespace bp::text::chat::testing {

struct Call {
  std::string name;
  std::string arguments;
  bool operator==(const Call&) const = default;
};

inline void PrintTo(const Call& call, std::ostream* out) {
  *out << call.name << "(" << call.arguments << ")";
}

struct Message {
  std::string content = {};
  std::string reasoning = {};
  std::vector<Call> calls = {};
  bool operator==(const Message&) const = default;
};

inline void PrintTo(const Message& message, std::ostream* out) {
  *out << "content [" << message.content << "] reasoning [" << message.reasoning << "] calls "
       << ::testing::PrintToString(message.calls);
}

inline Tools weather_tools() {
  return {{"get_weather", {{"city", true}, {"days", false}, {"units", false}}},
          {"get_time", {{"zone", true}}}};
}

// Adds events up, and checks that they make sense: calls one after the other, pieces not empty.
class Reading {
 public:
  void add(const OutputEvents& events) {
    for (const OutputEvent& event : events) {
      const bool in_call_event = event.kind == OutputEvent::Kind::kCallArguments ||
                                 event.kind == OutputEvent::Kind::kCallEnd;
      EXPECT_EQ(in_call_event, in_call_) << event.text;
      EXPECT_EQ(event.kind == OutputEvent::Kind::kCallEnd, event.text.empty());
      add(event);
    }
  }
  [[nodiscard]] const Message& message() const {
    EXPECT_FALSE(in_call_);
    return message_;
  }

 private:
  void add(const OutputEvent& event) {
    switch (event.kind) {
      case OutputEvent::Kind::kContent:
        message_.content += event.text;
        break;
      case OutputEvent::Kind::kReasoning:
        message_.reasoning += event.text;
        break;
      case OutputEvent::Kind::kCallBegin:
        EXPECT_EQ(event.call, message_.calls.size());
        message_.calls.push_back({event.text, {}});
        in_call_ = true;
        break;
      case OutputEvent::Kind::kCallArguments:
        EXPECT_EQ(event.call + 1, message_.calls.size());
        message_.calls.back().arguments += event.text;
        break;
      case OutputEvent::Kind::kCallEnd:
        in_call_ = false;
    }
  }

  Message message_;
  bool in_call_ = false;
};

// The sizes of the pieces: of size 1 each, or all of it but for one cut.
inline Message read_pieces(const OutputSettings& settings, std::string_view text,
                           const std::vector<size_t>& cuts) {
  const auto parser = OutputParser::create(settings);
  Reading reading;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    reading.add(parser->push(text.substr(begin, cut - begin)));
    begin = cut;
  }
  reading.add(parser->push(text.substr(begin)));
  reading.add(parser->finish());
  return reading.message();
}

inline OutputSettings settings_of(std::string_view dialect, Tools tools = weather_tools()) {
  OutputSettings settings;
  settings.dialect = find_dialect(dialect);
  EXPECT_NE(settings.dialect, nullptr) << dialect;
  settings.tools = std::move(tools);
  return settings;
}

// Whole, byte by byte and with one cut at every place: the same each time.
inline Message read_all_ways(const OutputSettings& settings, std::string_view text) {
  const Message whole = read_pieces(settings, text, {});
  std::vector<size_t> every;
  for (size_t i = 1; i < text.size(); ++i) {
    every.push_back(i);
    EXPECT_EQ(read_pieces(settings, text, {i}), whole) << "cut at " << i << " of " << text;
  }
  EXPECT_EQ(read_pieces(settings, text, every), whole) << "byte by byte: " << text;
  return whole;
}

}  // namespace bp::text::chat::testing
