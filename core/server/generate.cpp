#include "core/server/generate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "core/server/answer.hpp"

namespace bp::server {

namespace {

std::string random_id(const char* prefix) {
  std::random_device device;
  std::string id = prefix;
  for (int i = 0; i < 4; ++i) id += fmt::format("{:08x}", device());
  return id;
}

uint64_t random_seed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

int64_t now_s() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

// The engine's messages begin with the field at fault, "min_p: ...".
std::string field_of(const std::string& message) {
  const std::string name = message.substr(0, message.find(':'));
  const bool is_name = name.size() < message.size() && std::ranges::all_of(name, [](char c) {
                         return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
                       });
  return is_name ? name : std::string();
}

Refusal to_refusal(const Status& status, const TextCall& call, bool draining) {
  const std::string& message = status.message();
  std::string field = field_of(message);
  if (field.empty() && !call.request.chain.empty()) field = "samplers";
  switch (status.code()) {
    case Code::kInvalidArgument:
    case Code::kUnsupported:
      return {400, message, std::move(field), {}};
    case Code::kCancelled:
      if (draining) return {503, message, {}, {}};
      return {429, message, {}, "queue_full"};
    case Code::kDeviceLost:
    case Code::kOutOfMemory:
      return {503, message, {}, {}};
    default:
      return {500, message, {}, {}};
  }
}

std::unique_ptr<AnswerFormat> make_format(AnswerForm form, const runtime::ServedModel& model,
                                          const TextCall& call) {
  if (form == AnswerForm::kChat) {
    return make_chat_format({random_id("chatcmpl-"), now_s(), model.id}, call, model.tokenizer);
  }
  return make_completion_format({random_id("cmpl-"), now_s(), model.id}, call, model.tokenizer);
}

}  // namespace

std::optional<Refusal> refusal_of_all(const engine::Engine& engine, bool draining) {
  const Status room = engine.check_room();
  if (room.ok()) return std::nullopt;
  return to_refusal(room, {}, draining);
}

void generate(AnswerForm form, std::shared_ptr<runtime::ServedModel> model, TextCall call,
              std::shared_ptr<Exchange> exchange, bool draining) {
  engine::Engine& engine = *model->engine;
  const auto answer = make_answer(make_format(form, *model, call), exchange, engine, call);
  std::vector<engine::RequestId> ids;
  for (uint32_t i = 0; i < call.prompts.size(); ++i) {
    engine::Request request = call.request;
    request.prompt = std::move(call.prompts[i].ids);
    request.seed = call.seed ? *call.seed : random_seed();
    request.sink = answer->sink(i);
    const auto id = engine.submit(std::move(request));
    if (!id.ok()) {
      answer->drop();
      for (const engine::RequestId queued : ids) engine.cancel(queued);
      return exchange->send(to_response(to_refusal(id.status(), call, draining)));
    }
    ids.push_back(*id);
  }
  answer->open(std::move(ids));
  exchange->on_cancel([weak_model = std::weak_ptr(model), weak_answer = std::weak_ptr(answer)] {
    const auto its_model = weak_model.lock();
    const auto at_work = weak_answer.lock();
    if (its_model != nullptr && at_work != nullptr) at_work->cancel();
  });
}

}  // namespace bp::server
