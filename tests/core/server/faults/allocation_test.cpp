// The n-th allocation fails, for every n that a request reaches, on every thread of the server.
// That request may fail; the next one is answered as if nothing had been.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "core/engine/stats.hpp"
#include "core/server/http_server.hpp"
#include "failing_new.hpp"
#include "fixture.hpp"

namespace bp::server::testing {
namespace {

using bp::testing::exempt_this_thread;
using bp::testing::fail_allocation;
using bp::testing::stop_failing;

// One request over a socket; what came back until the server closed or went silent.
std::string exchange(uint16_t port, const std::string& request, int timeout_ms) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval limit{timeout_ms / 1000, timeout_ms % 1000 * 1000};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  std::string answer;
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    ::send(fd, request.data(), request.size(), MSG_NOSIGNAL);
    char bytes[4096];
    for (ssize_t n; (n = ::recv(fd, bytes, sizeof bytes, 0)) > 0;) {
      answer.append(bytes, static_cast<size_t>(n));
    }
  }
  ::close(fd);
  return answer;
}

std::string chat_about(const std::string& body) {
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
         "Content-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

class AllocationFaults : public ServerTest {
 protected:
  AllocationFaults() {
    exempt_this_thread();
    start();
    auto listening = HttpServer::listen("127.0.0.1", 0, {}, app->router());
    EXPECT_TRUE(listening.ok());
    http_ = std::move(listening).value();
    thread_ = std::thread([this] { http_->run(); });
  }
  ~AllocationFaults() override {
    http_->drain(0);
    thread_.join();
    http_.reset();
  }

  void fail_each(const std::string& request, const std::string& last, int least = 20) {
    const std::string whole = exchange(http_->port(), request, 5000);
    ASSERT_NE(whole.find("200 OK"), std::string::npos) << whole;
    int64_t n = 0;
    for (bool reached = true; reached; n += n < 200 ? 1 : 7) {
      fail_allocation(n);
      exchange(http_->port(), request, 300);
      reached = stop_failing();
      const std::string next = exchange(http_->port(), request, 5000);
      ASSERT_NE(next.find("200 OK"), std::string::npos) << "after allocation " << n;
      ASSERT_NE(next.find(last), std::string::npos) << "after allocation " << n;
    }
    RecordProperty("allocations", static_cast<int>(n));
    EXPECT_GT(n, least) << "the request makes hardly any allocation: the test tests nothing";
    wait_until_idle();
    EXPECT_EQ(stats().kv_blocks_used.get(), 0u);
  }

 private:
  std::unique_ptr<HttpServer> http_;
  std::thread thread_;
};

TEST_F(AllocationFaults, CostOneWholeAnswer) {
  fail_each(chat_about(R"({"messages": [{"role": "user", "content": "Hello"}]})"), "Welt!");
}

TEST_F(AllocationFaults, CostOneStreamedAnswer) {
  fail_each(chat_about(R"({"messages": [{"role": "user", "content": "Hello"}], "stream": true,
                          "n": 2, "logprobs": true, "stop": ["never"]})"),
            "data: [DONE]");
}

TEST_F(AllocationFaults, CostOneReadingOfTheMetrics) {
  fail_each("GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "backplane_requests_total", 10);
}

}  // namespace
}  // namespace bp::server::testing
