#pragma once
// Pieces of JSON that both forms of answers have.

#include <string>
#include <string_view>

#include "core/server/answer_format.hpp"

namespace bp::server {

inline constexpr std::string_view kEventBegin = "data: ";
inline constexpr std::string_view kEventEnd = "\n\n";
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

// {"id":..,"object":..,"created":..,"model":..,"choices":[
std::string answer_head(const AnswerHead& head, std::string_view object);
// ,"usage":{..}
void append_usage_member(const UsageTotals& usage, std::string& out);
// ,"finish_reason":"stop"
void append_finish_reason(engine::FinishReason reason, std::string& out);
// ,"NAME":[1,2]
void append_ids_member(std::string_view name, std::span<const int32_t> ids, std::string& out);
// An event with the usage and no choice.
void append_usage_event(const std::string& head, const UsageTotals& usage, std::string& out);

}  // namespace bp::server
