#pragma once
// JSON written piece by piece: what streams tokens has no time for a tree of values.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace bp::server {

// Appends the text as the inside of a JSON string. Bytes that are no UTF-8 become U+FFFD.
void append_escaped(std::string_view text, std::string& out);
// The same with quotes.
void append_string(std::string_view text, std::string& out);
[[nodiscard]] std::string json_string(std::string_view text);

void append_number(uint64_t number, std::string& out);
// The fewest digits that read back as the same float. JSON has no infinity: -9999 stands for a
// probability of nothing.
void append_logprob(float logprob, std::string& out);
void append_ids(std::span<const int32_t> ids, std::string& out);

}  // namespace bp::server
