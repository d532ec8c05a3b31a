#pragma once
// Sends a checked call to its engine and its answer to the client.

#include <memory>
#include <optional>
#include <string>

#include "core/server/answer_format.hpp"
#include "core/server/http.hpp"
#include "core/server/refusal.hpp"
#include "core/server/text_call.hpp"

namespace bp::server {

enum class AnswerForm { kChat, kCompletion };

// Why the engine would refuse every call now, if it would. draining: as below.
std::optional<Refusal> refusal_of_all(const engine::Engine& engine, bool draining);

// Answers through the exchange, now or as the engine goes on. draining: why an engine may refuse.
void generate(AnswerForm form, std::shared_ptr<runtime::ServedModel> model, TextCall call,
              std::shared_ptr<Exchange> exchange, bool draining);

}  // namespace bp::server
