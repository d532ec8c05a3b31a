#pragma once
// The HTTP interface of a process: which path does what, for whom, on which model.

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/config/config.hpp"
#include "core/server/http.hpp"
#include "core/server/model_table.hpp"
#include "core/server/text_call.hpp"

namespace bp::server {

class FieldReader;

// [any-thread]
class App {
 public:
  // The models' ids; requests for them are answered 503 until add_model.
  App(config::Server config, const std::vector<std::string>& model_ids);

  // A model has been loaded.
  void add_model(std::shared_ptr<runtime::ServedModel> model);
  // Takes no new requests from now on; those at work go on.
  void start_draining();
  // No engine has anything to do.
  [[nodiscard]] bool idle() const;
  // What routes to this app; the app outlives it and its handlers.
  [[nodiscard]] Router router();

 private:
  struct Endpoint;
  static const std::vector<Endpoint>& endpoints();

  Route route(const HttpRequest& request);
  void handle_post(const Endpoint& endpoint, const Caller& caller, const HttpRequest& request,
                   const std::shared_ptr<Exchange>& exchange);

  HttpResponse health(const HttpRequest& request);
  HttpResponse ready(const HttpRequest& request);
  HttpResponse metrics(const HttpRequest& request);
  HttpResponse models(const HttpRequest& request);
  HttpResponse model(const HttpRequest& request);

  config::Server config_;
  ModelTable models_;
  std::atomic<bool> draining_{false};
};

}  // namespace bp::server
