#include "core/server/neutral_fields.hpp"

#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace bp::server {

namespace {

struct NeutralField {
  const char* name;
  const char* values;  // a JSON array
};

constexpr NeutralField kNeutralFields[] = {
    {"response_format", R"([{"type": "text"}])"},
    {"tools", "[[]]"},
    {"tool_choice", R"(["none", "auto"])"},
    {"parallel_tool_calls", "[true, false]"},
    {"functions", "[[]]"},
    {"function_call", R"(["none", "auto"])"},
    {"modalities", R"([["text"]])"},
    {"service_tier", R"(["auto", "default"])"},
    {"store", "[false]"},
    {"verbosity", R"(["medium"])"},
    {"metadata", "[{}]"},
    {"suffix", R"([""])"},
    {"chat_template_kwargs", "[{}]"},
    {"continue_final_message", "[false]"},
    {"top_logprobs", "[0]"},
    {"echo", "[false]"},
    {"grammar", R"([""])"},
    {"regex", R"([""])"},
    {"dry_multiplier", "[0]"},
    {"xtc_probability", "[0]"},
    {"top_n_sigma", "[-1, 0]"},
};

// Of a message that an answer was.
constexpr NeutralField kNeutralMessageFields[] = {{"annotations", "[[]]"}};

// Of a stage that its strength, by one of the neutral values above, says to be off.
struct DetailField {
  const char* name;
  const char* strength;
};

constexpr DetailField kDetailFields[] = {
    {"dry_base", "dry_multiplier"},           {"dry_allowed_length", "dry_multiplier"},
    {"dry_penalty_last_n", "dry_multiplier"}, {"dry_sequence_breakers", "dry_multiplier"},
    {"xtc_threshold", "xtc_probability"},
};

void accept(std::span<const NeutralField> neutral_fields, FieldReader& fields) {
  for (const NeutralField& field : neutral_fields) {
    if (!fields.has_unread(field.name)) continue;
    const auto* value = fields.any(field.name);
    if (value == nullptr) return;  // a mistake was found before
    const auto neutral = FieldReader::Json::parse(field.values);
    bool is_neutral = false;
    for (const auto& candidate : neutral) is_neutral = is_neutral || *value == candidate;
    if (!is_neutral) fields.refuse(field.name, "is not supported");
  }
}

}  // namespace

void accept_neutral_fields(FieldReader& fields) {
  for (const DetailField& field : kDetailFields) {
    if (fields.has_unread(field.strength)) static_cast<void>(fields.any(field.name));
  }
  accept(kNeutralFields, fields);
}

void accept_neutral_message_fields(FieldReader& message) {
  accept(kNeutralMessageFields, message);
}

}  // namespace bp::server
