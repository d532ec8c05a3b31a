#pragma once
// Raw sockets, and a server whose paths say what its handlers do.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <latch>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/server/http_server.hpp"

namespace bp::server {

class Client {
 public:
  explicit Client(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    const timeval limit{10, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  ~Client() { close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  [[nodiscard]] bool connected() const { return connected_; }
  void send(const std::string& bytes) const {
    ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // Reads until `end` came, or the server closed.
  std::string read_until(const std::string& end) {
    while (end.empty() || text_.find(end) == std::string::npos) {
      char bytes[4096];
      const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
      if (n <= 0) {
        closed_ = n == 0;
        break;
      }
      text_.append(bytes, static_cast<size_t>(n));
    }
    return std::exchange(text_, "");
  }
  std::string read_all() { return read_until(""); }
  // At most n bytes of what has come; none once the server has closed.
  [[nodiscard]] size_t read_some(size_t n) const {
    std::string bytes(n, '\0');
    const ssize_t n_read = ::recv(fd_, bytes.data(), n, 0);
    return n_read > 0 ? static_cast<size_t>(n_read) : 0;
  }
  [[nodiscard]] bool closed_by_server() const { return closed_; }
  // Once an answer, or the end, has come to one of them: which.
  static size_t first_answered(const std::vector<std::unique_ptr<Client>>& clients) {
    std::vector<pollfd> polled;
    for (const auto& client : clients) polled.push_back({client->fd_, POLLIN, 0});
    ::poll(polled.data(), polled.size(), 10'000);
    const auto came = [](const pollfd& p) { return p.revents != 0; };
    return static_cast<size_t>(std::ranges::find_if(polled, came) - polled.begin());
  }

 private:
  int fd_;
  bool connected_ = false;
  bool closed_ = false;
  std::string text_;
};

class HttpServerTest : public ::testing::Test {
 protected:
  void start(HttpLimits limits = {}) {
    auto made = HttpServer::listen("127.0.0.1", 0, limits,
                                   [this](const HttpRequest& request) { return route(request); });
    ASSERT_TRUE(made.ok()) << made.status().message();
    server_ = std::move(made).value();
    port_ = server_->port();
    thread_ = std::thread([this] { server_->run(); });
  }
  ~HttpServerTest() override {
    let_go();
    if (server_ != nullptr) {
      server_->drain(0);
      if (thread_.joinable()) thread_.join();
    }
  }

  Route route(const HttpRequest& request) {
    Route route;
    if (request.path == "/wait") {
      routing_.count_down();
      go_on_.wait();
    }
    if (request.path == "/refuse") {
      route.verdict = Route::Verdict::kRefuse;
      route.refusal.status = 401;
      route.refusal.body = "no key";
    } else if (request.path == "/hold") {
      route.handler = [this](HttpRequest, std::shared_ptr<Exchange> exchange) {
        exchange->on_cancel([this] {
          const std::lock_guard lock(mutex_);
          gone_ = true;
          changed_.notify_all();
        });
        const std::lock_guard lock(mutex_);
        exchange_ = std::move(exchange);
        changed_.notify_all();
      };
    } else if (request.path == "/forget") {
      route.handler = [](HttpRequest, std::shared_ptr<Exchange>) {};
    } else if (request.path == "/own") {
      route.handler = [owned = std::exchange(owned_, nullptr)](const HttpRequest&,
                                                               const std::shared_ptr<Exchange>&) {};
      routing_.count_down();
    } else if (request.path == "/work") {
      route.handler = [this](HttpRequest, std::shared_ptr<Exchange>) {
        working_.count_down();
        go_on_.wait();
      };
    } else if (request.path == "/throw") {
      route.handler = [](HttpRequest, std::shared_ptr<Exchange>) {
        throw std::runtime_error("a fault");
      };
    } else {
      route.handler = [](HttpRequest r, std::shared_ptr<Exchange> exchange) {
        HttpResponse response;
        response.body = r.method + " " + r.path + " " + r.body;
        exchange->send(std::move(response));
      };
      route.is_quick = request.path == "/quick";
    }
    return route;
  }

  std::shared_ptr<Exchange> held() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(5), [this] { return exchange_ != nullptr; });
    return exchange_;
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    exchange_ = nullptr;
  }
  // With a request each, until go_on_.
  void occupy_workers(Client& first, Client& second) {
    for (Client* client : {&first, &second}) client->send("GET /work HTTP/1.1\r\nHost: a\r\n\r\n");
    working_.wait();
  }
  bool client_gone_within(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [this] { return gone_; });
  }
  std::string answer_to(const std::string& bytes) {
    Client client(port_);
    client.send(bytes);
    return client.read_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Exchange> exchange_;                    // of /hold
  std::shared_ptr<int> owned_ = std::make_shared<int>();  // by the handler of /own
  bool gone_ = false;
  std::latch routing_{1}, go_on_{1};  // of /wait and /own, on the server's own thread
  std::latch working_{2};             // of /work, as many as there are workers
  uint16_t port_ = 0;
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

}  // namespace bp::server
