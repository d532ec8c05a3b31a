#include "core/engine/emit.hpp"

#include <utility>

namespace bp::engine {

void emit(Events& events, Mailbox& mailbox) {
  for (Event& event : events) {
    RequestState& request = *event.request;
    Sink& sink = *request.request.sink;
    if (event.has_prompt_logprobs) sink.on_prompt_logprobs(std::move(request.prompt_logprobs));
    if (!event.delta.tokens.empty() || !event.delta.text.empty()) {
      sink.on_delta(event.choice, std::move(event.delta));
    }
    if (event.has_finish) sink.on_finish(event.choice, std::move(event.finish));
  }
  for (const Event& event : events) {
    RequestState& request = *event.request;
    request.request.sink->on_step_end();
    if (event.has_finish && --request.n_unfinished == 0) mailbox.note_request_ended();
  }
  for (const Event& event : events) event.request->request.sink->flush();
  events.clear();
}

}  // namespace bp::engine
