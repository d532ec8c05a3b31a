#pragma once
// Listens, reads requests within limits, and hands them to the router. One thread does all input
// and output; handlers run on a few workers.

#include <cstdint>
#include <memory>
#include <string>

#include "backplane/status.hpp"
#include "core/server/http.hpp"

namespace bp::server {

class HttpServer {
 public:
  // Binds and listens; port 0 picks a free one.
  static Result<std::unique_ptr<HttpServer>> listen(const std::string& host, uint16_t port,
                                                    HttpLimits limits, Router router);
  ~HttpServer();  // closes what is open

  [[nodiscard]] uint16_t port() const;
  // Serves until stop, on the calling thread.
  void run();
  // No new connections or requests, nor those whose bodies still come; run returns when the open
  // answers are complete. After grace_s, or with a second call, those that are not end with an
  // error, which their clients have a second to take. A third call ends run at once. [any-thread]
  void drain(uint32_t grace_s);
  // Called on run's thread for SIGTERM and SIGINT.
  void on_signal(std::function<void()> handler);
  [[nodiscard]] uint32_t n_connections() const;

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace bp::server
