// backplane serve: the models of a configuration over HTTP, until SIGTERM.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <thread>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "core/base/cpu_topology.hpp"
#include "core/cli/commands.hpp"
#include "core/cli/progress.hpp"
#include "core/config/config.hpp"
#include "core/runtime/launch.hpp"
#include "core/runtime/plugin_folders.hpp"
#include "core/server/app.hpp"
#include "core/server/http_server.hpp"

namespace bp::cli {

namespace {

// The team of workers has the size of the largest `threads`.
uint32_t threads_asked(const config::Config& config) {
  uint32_t n = 1;
  for (const config::Model& model : config.models) {
    const uint32_t asked = model.backend.n_threads;
    n = std::max(n, asked == 0 ? base::own_topology().n_cores() : asked);
  }
  return n;
}

std::vector<std::string> model_ids(const config::Config& config) {
  std::vector<std::string> ids;
  for (const config::Model& model : config.models) ids.push_back(model.id);
  return ids;
}

server::HttpLimits http_limits(const config::Server& config) {
  server::HttpLimits limits;
  limits.max_body_bytes = config.max_body_bytes;
  return limits;
}

// Loads the models one after another, beside the listening server.
class Loader {
 public:
  Loader(const config::Config& config, runtime::Runtime& runtime, server::App& app)
      : config_(config), runtime_(runtime), app_(app) {}
  ~Loader() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

  // `failed` is called on the loader's thread.
  void start(std::function<void()> failed) {
    thread_ = std::thread([this, failed = std::move(failed)] {
      status_ = load_all();
      if (!status_.ok() && !stop_) failed();
    });
  }
  void stop() { stop_ = true; }
  // What loading came to; waits for its end.
  Status join() {
    thread_.join();
    return stop_ ? Status() : status_;
  }

 private:
  Status load_all() {
    for (const config::Model& model : config_.models) {
      const Status status = load(model);
      if (!status.ok()) return status.with_context("model '" + model.id + "'");
    }
    spdlog::info("ready");
    return {};
  }

  // Memory that runs out is a failure like others, also on a thread of its own.
  Status load(const config::Model& model) {
    try {
      const ProgressBar progress("loading " + model.id, &stop_);
      BP_ASSIGN(auto served,
                runtime::launch(runtime_, model, config_.server.max_queue, progress.c()));
      app_.add_model(std::move(served));
    } catch (const std::exception& e) {
      return internal_error(e.what());
    }
    return {};
  }

  const config::Config& config_;
  runtime::Runtime& runtime_;
  server::App& app_;
  std::atomic<bool> stop_{false};
  Status status_;
  std::thread thread_;
};

Status serve_until_signal(const config::Config& config, runtime::Runtime& runtime) {
  server::App app(config.server, model_ids(config));
  BP_ASSIGN(const auto http, server::HttpServer::listen(config.server.host, config.server.port,
                                                        http_limits(config.server), app.router()));
  const bool is_ipv6 = config.server.host.find(':') != std::string::npos;
  fmt::print(stderr, "listening on http://{0}{1}{2}:{3}\n", is_ipv6 ? "[" : "", config.server.host,
             is_ipv6 ? "]" : "", http->port());
  Loader loader(config, runtime, app);
  http->on_signal([&] {
    app.start_draining();
    loader.stop();
    http->drain(config.server.grace_s);
  });
  loader.start([&] { http->drain(0); });
  http->run();
  return loader.join();
}

}  // namespace

Status serve(const ServeOptions& options) {
  BP_ASSIGN(const auto paths, config::read_plugin_paths(options.config));
  BP_ASSIGN(plugin::Catalog catalog, plugin::Catalog::scan(runtime::plugin_folders(paths)));
  BP_ASSIGN(const config::Config config, config::load(options.config, catalog));
  if (options.check) {
    fmt::print("{}: valid, {} model(s)\n", options.config, config.models.size());
    return {};
  }
  spdlog::set_level(spdlog::level::info);
  BP_ASSIGN(const auto runtime,
            runtime::Runtime::create(std::move(catalog), threads_asked(config)));
  return serve_until_signal(config, *runtime);
}

}  // namespace bp::cli
