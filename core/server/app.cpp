#include "core/server/app.hpp"

#include <algorithm>
#include <charconv>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "core/base/json_tree.hpp"
#include "core/server/api_keys.hpp"
#include "core/server/field_reader.hpp"
#include "core/server/generate.hpp"
#include "core/server/header_checks.hpp"
#include "core/server/json_text.hpp"
#include "core/server/metrics.hpp"
#include "core/server/text_endpoints.hpp"

namespace bp::server {

using Exchanges = std::shared_ptr<Exchange>;

namespace {

constexpr std::string_view kModelPrefix = "/models/";

}  // namespace

struct App::Endpoint {
  using Get = HttpResponse (App::*)(const HttpRequest&);
  using TextPost = std::string (*)(FieldReader&, const CallContext&);
  using CallReader = void (*)(FieldReader&, const CallContext&, TextCall&);

  std::string_view path;  // without /v1; ending in '/': whatever follows
  bool is_open = false;   // needs no key
  Get get = nullptr;      // else a POST, which answers with a text or generates
  TextPost text_post = nullptr;
  CallReader read_call = nullptr;
  AnswerForm form = AnswerForm::kChat;

  [[nodiscard]] bool matches(std::string_view p) const {
    return path.ends_with('/') ? p.size() > path.size() && p.starts_with(path) : p == path;
  }
  [[nodiscard]] const char* methods() const { return get != nullptr ? "GET, HEAD" : "POST"; }
  // The answer to HEAD is that to GET, of which the connection sends the header alone.
  [[nodiscard]] bool takes(std::string_view method) const {
    return get != nullptr ? method == "GET" || method == "HEAD" : method == "POST";
  }
};

const std::vector<App::Endpoint>& App::endpoints() {
  static const std::vector<Endpoint> kEndpoints = {
      {.path = "/health", .is_open = true, .get = &App::health},
      {.path = "/ready", .is_open = true, .get = &App::ready},
      {.path = "/metrics", .is_open = true, .get = &App::metrics},
      {.path = "/models", .get = &App::models},
      {.path = kModelPrefix, .get = &App::model},
      {.path = "/tokenize", .text_post = tokenize},
      {.path = "/detokenize", .text_post = detokenize},
      {.path = "/chat/completions/render", .text_post = render_chat_call},
      {.path = "/completions/render", .text_post = render_completion_call},
      {.path = "/chat/completions", .read_call = read_chat_call},
      {.path = "/completions", .read_call = read_completion_call, .form = AnswerForm::kCompletion},
  };
  return kEndpoints;
}

namespace {

Route refuse(const Refusal& refusal, Headers headers = {}) {
  HttpResponse response = to_response(refusal);
  std::ranges::move(headers, std::back_inserter(response.headers));
  return {Route::Verdict::kRefuse, std::move(response), nullptr};
}

// Member by member: gcc 12 destroys twice what a braced initialiser has made when a later member
// throws.
template <class Handler>
Route accept(Handler handler) {
  Route route;
  route.handler = std::move(handler);
  return route;
}

std::string_view without_version(std::string_view path) {
  if (path.starts_with("/v1/")) path.remove_prefix(3);
  return path;
}

bool is_json(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  type = type.substr(0, type.find_last_not_of(" \t") + 1);
  return same_ignoring_case(type, "application/json");
}

bool is_identity(std::string_view content_encoding) {
  return content_encoding.empty() || same_ignoring_case(content_encoding, "identity");
}

// "%2F" and the like in a path; what is no such triple stays.
std::string percent_decode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    uint8_t byte = 0;
    const bool is_triple =
        text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(&text[i + 1], &text[i + 1] + 2, byte, 16).ptr == &text[i + 1] + 2;
    out += is_triple ? static_cast<char>(byte) : text[i];
    if (is_triple) i += 2;
  }
  return out;
}

HttpResponse json_response(int status, std::string body) {
  HttpResponse response;
  response.status = status;
  response.body = std::move(body);
  return response;
}

void append_model(const ModelEntry& entry, std::string& out) {
  out += R"({"id":)";
  append_string(entry.id, out);
  out += R"(,"object":"model","created":)";
  append_number(static_cast<uint64_t>(entry.model->created), out);
  out += R"(,"owned_by":"backplane","max_model_len":)";
  append_number(entry.model->context, out);
  out += '}';
}

}  // namespace

App::App(config::Server config, const std::vector<std::string>& model_ids)
    : config_(std::move(config)), models_(model_ids) {}

void App::add_model(std::shared_ptr<runtime::ServedModel> model) {
  if (draining_) model->engine->drain();
  models_.set(std::move(model));
}

void App::start_draining() {
  draining_ = true;
  for (const ModelEntry& entry : models_.all()) {
    if (entry.model != nullptr) entry.model->engine->drain();
  }
}

bool App::idle() const {
  return std::ranges::all_of(models_.all(), [](const ModelEntry& entry) {
    return entry.model == nullptr || entry.model->engine->idle();
  });
}

Router App::router() {
  return [this](const HttpRequest& request) { return route(request); };
}

Route App::route(const HttpRequest& request) {
  const std::string_view path = without_version(request.path);
  const auto& all = endpoints();
  const auto endpoint =
      std::ranges::find_if(all, [&](const Endpoint& e) { return e.matches(path); });
  if (endpoint == all.end()) {
    return refuse({404, "there is nothing at " + request.path, {}, {}});
  }
  if (!endpoint->takes(request.method)) {
    return refuse({405, std::string("this path takes ") + endpoint->methods(), {}, {}},
                  {{"Allow", endpoint->methods()}});
  }
  std::optional<Caller> caller = Caller{};
  if (!endpoint->is_open) caller = find_caller(config_.api_keys, request.authorization);
  if (!caller) {
    return refuse({401, "the API key is missing or wrong", {}, "invalid_api_key"},
                  {{"WWW-Authenticate", "Bearer"}});
  }
  if (endpoint->get != nullptr) {
    Route route = accept([this, endpoint](const HttpRequest& r, const Exchanges& exchange) {
      exchange->send((this->*endpoint->get)(r));
    });
    route.is_quick = true;
    return route;
  }
  if (!is_json(request.content_type)) {
    return refuse({415, "the Content-Type must be application/json", {}, {}});
  }
  if (!is_identity(request.content_encoding)) {
    return refuse({415, "the body must not be compressed", {}, {}},
                  {{"Accept-Encoding", "identity"}});
  }
  if (draining_) return refuse(shutting_down());
  return accept([this, endpoint, caller](const HttpRequest& r, const Exchanges& exchange) {
    handle_post(*endpoint, *caller, r, exchange);
  });
}

namespace {

// Memory that runs out ends this request, not the process.
template <class F>
void guarded(Exchange& exchange, F&& work) {
  try {
    work();
  } catch (const std::exception& e) {
    exchange.send(to_response({500, std::string("the request failed: ") + e.what(), {}, {}}));
  }
}

}  // namespace

void App::handle_post(const Endpoint& endpoint, const Caller& caller, const HttpRequest& request,
                      const Exchanges& exchange) {
  guarded(*exchange, [&] {
    const auto body = base::parse_json<nlohmann::ordered_json>(request.body);
    if (!body.ok()) {
      return exchange->send(to_response({400, "the body: " + body.status().message(), {}, {}}));
    }
    FieldReader fields(*body);
    const auto id = fields.text("model", SIZE_MAX);
    Refusal refusal;
    const auto entry = fields.ok() ? models_.find(id, refusal) : std::nullopt;
    if (!entry) return exchange->send(to_response(fields.refusal().value_or(refusal)));
    // Reading a prompt is work for nothing where the engine takes none.
    const auto full = endpoint.read_call == nullptr
                          ? std::nullopt
                          : refusal_of_all(*entry->model->engine, draining_);
    if (full) return exchange->send(to_response(*full));
    const CallContext context{.model = *entry->model,
                              .caller = caller,
                              .max_prompt_bytes = entry->max_prompt_bytes,
                              .max_prompts = config_.max_queue,
                              .request_templates = config_.request_templates};
    TextCall call;
    std::string text;
    if (endpoint.text_post != nullptr) {
      text = endpoint.text_post(fields, context);
    } else {
      endpoint.read_call(fields, context, call);
    }
    if (fields.refusal()) return exchange->send(to_response(*fields.refusal()));
    if (endpoint.text_post != nullptr) return exchange->send(json_response(200, std::move(text)));
    generate(endpoint.form, entry->model, std::move(call), exchange, draining_);
  });
}

HttpResponse App::health(const HttpRequest&) {
  return json_response(200, R"({"status":"ok"})");
}

HttpResponse App::ready(const HttpRequest&) {
  if (draining_) return json_response(503, R"({"status":"draining"})");
  return models_.ready() ? json_response(200, R"({"status":"ready"})")
                         : json_response(503, R"({"status":"not ready"})");
}

HttpResponse App::metrics(const HttpRequest&) {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = metrics_text(models_.all());
  return response;
}

HttpResponse App::models(const HttpRequest&) {
  std::string body = R"({"object":"list","data":[)";
  for (const ModelEntry& entry : models_.all()) {
    if (entry.model == nullptr) continue;
    if (body.back() == '}') body += ',';
    append_model(entry, body);
  }
  return json_response(200, body + "]}");
}

HttpResponse App::model(const HttpRequest& request) {
  const std::string_view path = without_version(request.path);
  const std::string id = percent_decode(path.substr(kModelPrefix.size()));
  Refusal refusal;
  const auto entry = models_.find(id, refusal);
  if (!entry) return to_response(refusal);
  std::string body;
  append_model(*entry, body);
  return json_response(200, std::move(body));
}

}  // namespace bp::server
