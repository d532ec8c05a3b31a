#pragma once
// A request for text, checked: what /v1/chat/completions and /v1/completions have in common once
// their fields are read.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/request.hpp"
#include "core/runtime/served_model.hpp"
#include "core/server/field_reader.hpp"
#include "core/text/chat_output/output_parser.hpp"

namespace bp::server {

// Whom a request comes from, by its API key.
struct Caller {
  std::string tenant;
  int32_t priority = 0;  // where a request names none
  int32_t max_priority = INT32_MAX;
};

// What fields are checked against. Outlives the reading.
struct CallContext {
  const runtime::ServedModel& model;
  Caller caller;
  size_t max_prompt_bytes = 0;     // a longer text has more tokens than the context
  uint32_t max_prompts = 1;        // of one request
  bool request_templates = false;  // a request may bring its own chat template
};

struct Prompt {
  std::string text;  // empty where ids were given and nothing asks for their text
  std::vector<int32_t> ids;
  bool has_added_bos = false;  // the first id is no part of the text
};

struct TextCall {
  std::vector<Prompt> prompts;   // at least one
  engine::Request request;       // all but prompt, sink and seed
  std::optional<uint64_t> seed;  // none: each prompt draws by its own
  bool stream = false;
  bool include_usage = false;
  bool return_token_ids = false;
  bool echo = false;                  // choices begin with the prompt
  bool add_bos = true;                // where the vocabulary asks for it
  text::chat::OutputSettings output;  // of a chat: how its answers are read
};

// Each reads every field that it knows; what remains is refused. The call is complete if the reader
// has no refusal.
void read_chat_call(FieldReader& fields, const CallContext& context, TextCall& call);
void read_completion_call(FieldReader& fields, const CallContext& context, TextCall& call);

// The part that they share: sampling, stopping, streaming, logit bias, priority, cache salt.
void read_generation_fields(FieldReader& fields, const CallContext& context, TextCall& call);

// Refuses a least length beyond the greatest.
void check_lengths(FieldReader& fields, const TextCall& call);

// Refuses prompts that do not fit the model's context.
void check_context(FieldReader& fields, const CallContext& context, const std::string& param,
                   const TextCall& call);

}  // namespace bp::server
