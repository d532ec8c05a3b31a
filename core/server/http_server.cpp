#include "core/server/http_server.hpp"

#include <chrono>
#include <csignal>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>

#include "core/server/connection.hpp"
#include "core/server/workers.hpp"

namespace bp::server {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;

namespace {

// For clients to take the errors in which their answers end.
constexpr auto kCutTime = std::chrono::seconds(1);

}  // namespace

struct HttpServer::Impl {
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  tcp::acceptor acceptor{shared->io};
  asio::steady_timer accept_pause{shared->io};
  asio::steady_timer grace{shared->io};
  asio::signal_set signals{shared->io};

  void accept();
  void accepted(const boost::system::error_code& error, tcp::socket socket);
  void pause_accepting();
  void begin_drain(uint32_t grace_s);
  void end_grace();
  std::vector<std::shared_ptr<Connection>> connections() const;
  void close_all();
  void stop_if_quiet();
  void wait_for_signal(std::function<void()> handler);
};

void HttpServer::Impl::accept() {
  acceptor.async_accept(
      [this](const auto& error, tcp::socket socket) { accepted(error, std::move(socket)); });
}

void HttpServer::Impl::accepted(const boost::system::error_code& error, tcp::socket socket) {
  if (error == asio::error::operation_aborted) return;
  if (error) {
    spdlog::warn("a connection cannot be accepted: {}", error.message());
    return pause_accepting();
  }
  // Beyond the limit a connection is closed at once: that costs nothing and holds nothing.
  if (shared->n_open < shared->limits.max_connections) {
    std::make_shared<Connection>(std::move(socket), shared)->start();
  }
  accept();
}

// Out of descriptors: accepting again at once would only spin.
void HttpServer::Impl::pause_accepting() {
  accept_pause.expires_after(std::chrono::milliseconds(100));
  accept_pause.async_wait([this](const auto& error) {
    if (!error) accept();
  });
}

// Goes on accepting, so that probes and new requests get an answer (the router's 503), not a
// refusal.
void HttpServer::Impl::begin_drain(uint32_t grace_s) {
  if (shared->draining) return end_grace();
  shared->draining = true;
  const std::vector<Connection*> open(shared->open.begin(), shared->open.end());
  for (Connection* connection : open) connection->close_when_idle();
  grace.expires_after(std::chrono::seconds(grace_s));
  grace.async_wait([this](const auto& error) {
    if (!error) end_grace();
  });
  shared->on_quiet = [this] { stop_if_quiet(); };
  stop_if_quiet();
}

// Clients get an error for what is still at work, not half an answer.
void HttpServer::Impl::end_grace() {
  if (shared->cuts_short) return close_all();
  shared->cuts_short = true;
  grace.expires_after(kCutTime);
  grace.async_wait([this](const auto& error) {
    if (!error) close_all();
  });
  spdlog::warn("the grace time is over: {} unfinished request(s) end with an error",
               shared->n_at_work);
  for (const auto& connection : connections()) {
    run_work([&connection] { connection->cut_short(); });
  }
}

std::vector<std::shared_ptr<Connection>> HttpServer::Impl::connections() const {
  std::vector<std::shared_ptr<Connection>> open;
  for (Connection* connection : shared->open) open.push_back(connection->shared_from_this());
  return open;
}

void HttpServer::Impl::close_all() {
  for (const auto& connection : connections()) connection->close_now();
  shared->io.stop();
}

void HttpServer::Impl::stop_if_quiet() {
  if (shared->n_at_work == 0) shared->io.stop();
}

void HttpServer::Impl::wait_for_signal(std::function<void()> handler) {
  signals.async_wait([this, handler = std::move(handler)](const auto& error, int) mutable {
    if (error) return;
    handler();
    wait_for_signal(std::move(handler));
  });
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

// Runs the handlers of what was cancelled: they own the connections.
HttpServer::~HttpServer() {
  Shared& shared = *impl_->shared;
  shared.on_quiet = nullptr;
  shared.draining = shared.cuts_short = true;
  boost::system::error_code ignored;
  impl_->acceptor.close(ignored);
  impl_->accept_pause.cancel();
  impl_->grace.cancel();
  impl_->signals.cancel(ignored);
  impl_->close_all();
  shared.workers.stop();
  do {
    shared.io.restart();
  } while (shared.io.poll() != 0);
}

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const std::string& host, uint16_t port,
                                                       HttpLimits limits, Router router) {
  auto impl = std::make_unique<Impl>();
  impl->shared->limits = limits;
  impl->shared->router = std::move(router);
  boost::system::error_code error;
  tcp::resolver resolver(impl->shared->io);
  const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, error);
  if (error || found.empty()) {
    return io_error(fmt::format("the address '{}' is unknown: {}", host, error.message()));
  }
  const tcp::endpoint endpoint = *found.begin();
  tcp::acceptor& acceptor = impl->acceptor;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return io_error(fmt::format("cannot listen on {}:{}: {}", host, port, error.message()));
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

uint16_t HttpServer::port() const {
  return impl_->acceptor.local_endpoint().port();
}

void HttpServer::run() {
  const auto work = asio::make_work_guard(impl_->shared->io);
  boost::system::error_code ignored;
  // A connection that runs out of memory is closed; the others go on, and so does accepting.
  for (bool ended = false; !ended;) {
    try {
      impl_->acceptor.cancel(ignored);  // what may still be pending, if the accept itself failed
      impl_->accept();
      impl_->shared->io.run();
      ended = true;
    } catch (const std::exception& e) {
      spdlog::error("a connection failed: {}", e.what());
    }
  }
  impl_->acceptor.close(ignored);
}

void HttpServer::drain(uint32_t grace_s) {
  asio::post(impl_->shared->io, [impl = impl_.get(), grace_s] { impl->begin_drain(grace_s); });
}

void HttpServer::on_signal(std::function<void()> handler) {
  impl_->signals.add(SIGTERM);
  impl_->signals.add(SIGINT);
  impl_->wait_for_signal(std::move(handler));
}

uint32_t HttpServer::n_connections() const {
  return impl_->shared->n_open;
}

}  // namespace bp::server
