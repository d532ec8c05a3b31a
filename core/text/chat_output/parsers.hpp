#pragma once
// The kinds of OutputParser.

#include "core/text/chat_output/output_parser.hpp"

namespace bp::text::chat {

// Reasoning and calls between marks.
std::unique_ptr<OutputParser> make_marked_parser(const OutputSettings& settings);
// Messages in channels.
std::unique_ptr<OutputParser> make_harmony_parser(const OutputSettings& settings);

}  // namespace bp::text::chat
