// Bodies of requests: what all have together, and how slowly one may come.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/core/server/transport/http_server_fixture.hpp"

namespace bp::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using namespace std::chrono_literals;

// Clients with 1 MiB of a body each, of which the server holds 16 MiB together.
class HeldBodiesTest : public HttpServerTest {
 protected:
  void start_small(uint32_t body_interval_s = 60) {
    HttpLimits limits;
    limits.max_body_bytes = 1 << 20;
    limits.body_interval_s = body_interval_s;
    limits.min_body_rate = 0;
    start(limits);
  }
  using Clients = std::vector<std::unique_ptr<Client>>;
  // Of bodies of 1 MiB n_missing bytes are not sent.
  Clients send_bodies(size_t n_clients, size_t n_missing) const {
    Clients clients;
    for (size_t i = 0; i < n_clients; ++i) {
      clients.push_back(std::make_unique<Client>(port_));
      clients.back()->send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n\r\n" +
                           std::string((1 << 20) - n_missing, 'x'));
    }
    return clients;
  }
  static void expect_one_is_refused(Clients& clients) {
    const size_t refused = Client::first_answered(clients);
    ASSERT_LT(refused, clients.size());
    const std::string answer = clients[refused]->read_all();
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 503"));
    EXPECT_THAT(answer, HasSubstr("\r\nRetry-After: "));
    EXPECT_THAT(answer, HasSubstr("\r\nConnection: close\r\n"));
    EXPECT_THAT(answer, HasSubstr("all requests together have more than 16 MiB"));
    EXPECT_TRUE(clients[refused]->closed_by_server());
    clients.erase(clients.begin() + static_cast<ptrdiff_t>(refused));
  }
  static void expect_answers(const Clients& clients) {
    for (const auto& client : clients) {
      EXPECT_THAT(client->read_until("\r\n\r\nPOST /x xxx"), StartsWith("HTTP/1.1 200"));
    }
  }
};

TEST_F(HeldBodiesTest, AreBoundedWhileTheyCome) {
  start_small();
  Clients clients = send_bodies(17, 1);
  expect_one_is_refused(clients);
  for (const auto& client : clients) client->send("x");
  expect_answers(clients);
}

TEST_F(HeldBodiesTest, AreBoundedWhileTheyWaitForAWorker) {
  start_small();
  Client first(port_), second(port_);
  occupy_workers(first, second);
  Clients clients = send_bodies(17, 0);
  expect_one_is_refused(clients);
  go_on_.count_down();
  expect_answers(clients);
  // What has been handled is held no more, but for what two workers may just be ending.
  expect_answers(send_bodies(14, 0));
}

// The largest of those that have come for long.
TEST_F(HeldBodiesTest, GiveWayToOthersWhereTheyComeSlowly) {
  start_small(1);
  Clients slow = send_bodies(15, 1);
  Clients smaller = send_bodies(1, 1 << 19);
  std::this_thread::sleep_for(2s);
  expect_answers(send_bodies(1, 0));
  expect_one_is_refused(slow);
  for (const auto& client : slow) client->send("x");
  expect_answers(slow);
  smaller.front()->send(std::string(1 << 19, 'x'));
  expect_answers(smaller);
}

TEST_F(HeldBodiesTest, AreHeldNoMoreOnceTheClientHasGone) {
  start_small();
  Clients clients = send_bodies(16, 1);
  while (server_->n_connections() < 16) std::this_thread::sleep_for(1ms);
  clients.clear();
  while (server_->n_connections() > 0) std::this_thread::sleep_for(1ms);
  expect_answers(send_bodies(16, 0));
}

// Clients that send some bytes of a body every tenth of a second.
class SlowBodiesTest : public HttpServerTest {
 protected:
  void start_with(uint32_t body_timeout_s) {
    HttpLimits limits;
    limits.body_timeout_s = body_timeout_s;
    limits.body_interval_s = 1;
    limits.min_body_rate = 100;
    start(limits);
  }
  // Beginning with 150 bytes at once.
  std::string answer_to_body(size_t n_bytes, size_t n_at_a_time) const {
    Client client(port_);
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: " +
                std::to_string(n_bytes) + "\r\n\r\n" + std::string(150, 'x'));
    std::atomic<bool> is_answered = false;
    std::thread drip([&] {
      for (size_t n = 150; n < n_bytes && !is_answered; n += n_at_a_time) {
        std::this_thread::sleep_for(100ms);
        client.send(std::string(n_at_a_time, 'x'));
      }
    });
    std::string answer = client.read_all();
    is_answered = true;
    drip.join();
    return answer;
  }
};

TEST_F(SlowBodiesTest, EndWhereNotComplete) {
  start_with(1);
  const std::string answer = answer_to_body(3000, 50);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 408"));
  EXPECT_THAT(answer, HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_THAT(answer, HasSubstr("the request's body did not come within 1 s"));
}

TEST_F(SlowBodiesTest, EndBelowTheLeastRate) {
  start_with(60);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(answer_to_body(3000, 1),
              HasSubstr("the request's body came too slowly: fewer than 100 bytes in 1 s"));
  EXPECT_GT(std::chrono::steady_clock::now() - begin, 1500ms);
}

TEST_F(SlowBodiesTest, AreReadAboveIt) {
  start_with(60);
  EXPECT_THAT(answer_to_body(1350, 50), StartsWith("HTTP/1.1 200"));
}

}  // namespace
}  // namespace bp::server
