// A server that ends: what it still answers, and with what.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "tests/core/server/transport/http_server_fixture.hpp"

namespace bp::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using namespace std::chrono_literals;

TEST_F(HttpServerTest, DrainsOpenAnswersThenStops) {
  start();
  Client idle(port_);
  Client client(port_);
  client.send("POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
  auto exchange = held();
  ASSERT_NE(exchange, nullptr);
  server_->drain(30);
  idle.read_all();
  EXPECT_TRUE(idle.closed_by_server());
  HttpResponse response;
  response.body = "finished";
  exchange->send(std::move(response));
  EXPECT_THAT(client.read_all(), HasSubstr("finished"));
  client.close();
  thread_.join();
  EXPECT_FALSE(Client(port_).connected());
}

TEST_F(HttpServerTest, EndsWhatOutlastsTheGrace) {
  start();
  Client client(port_);
  client.send("POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
  ASSERT_NE(held(), nullptr);
  server_->drain(1);
  thread_.join();
  EXPECT_TRUE(client_gone_within(0ms));
}

TEST_F(HttpServerTest, EndsWithWhatAnswersTheEndOfTheGrace) {
  start();
  Client client(port_);
  client.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
  const auto exchange = held();
  ASSERT_NE(exchange, nullptr);
  exchange->start_stream("text/event-stream");
  exchange->write("data: 1\n\n");
  exchange->flush();
  client.read_until("data: 1");
  server_->drain(0);
  ASSERT_TRUE(client_gone_within(5s));
  exchange->end_stream("data: error\n\n");
  EXPECT_THAT(client.read_all(), HasSubstr("data: error\n\n\r\n0\r\n\r\n"));
  client.close();
  thread_.join();
}

// Nothing of it can be told yet.
TEST_F(HttpServerTest, RefusesWhatAWorkerHasWhenTheGraceIsOver) {
  start();
  Client first(port_), second(port_);
  occupy_workers(first, second);
  server_->drain(30);
  server_->drain(30);
  for (Client* client : {&first, &second}) {
    const std::string answer = client->read_all();
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 503"));
    EXPECT_THAT(answer, HasSubstr("Retry-After: "));
    EXPECT_THAT(answer, HasSubstr(R"("type":"server_error")"));
  }
  thread_.join();
  go_on_.count_down();
}

TEST_F(HttpServerTest, EndsAtOnceWhenItIsAskedForTheThirdTime) {
  start();
  Client client(port_);
  client.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_NE(held(), nullptr);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 3; ++i) server_->drain(30);
  thread_.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 900ms);
  EXPECT_TRUE(client_gone_within(0ms));
}

// As if it came now.
TEST_F(HttpServerTest, RefusesWhatIsStillComingWhenItDrains) {
  start();
  Client with_length(port_), chunked(port_);
  const std::string head = "POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n";
  with_length.send(head + "Content-Length: 1000\r\n\r\n");
  chunked.send(head + "Transfer-Encoding: chunked\r\n\r\n");
  for (Client* client : {&with_length, &chunked}) {
    EXPECT_THAT(client->read_until("\r\n\r\n"), StartsWith("HTTP/1.1 100"));
  }
  server_->drain(30);
  for (Client* client : {&with_length, &chunked}) {
    client->send(std::string(100'000, 'x'));
    std::this_thread::sleep_for(20ms);
    const std::string answer = client->read_all();
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 503"));
    EXPECT_THAT(answer, HasSubstr("\r\nConnection: close\r\n"));
    EXPECT_THAT(answer, HasSubstr(R"("message":"the server is shutting down")"));
  }
  // It still reads what they send, so that none is reset.
  EXPECT_TRUE(Client(port_).connected());
  for (Client* client : {&with_length, &chunked}) client->close();
  const auto begin = std::chrono::steady_clock::now();
  thread_.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 500ms);
}

TEST_F(HttpServerTest, RefusesWhatHasBegunWhenTheGraceIsOver) {
  start();
  Client at_work(port_), begun(port_);
  at_work.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_NE(held(), nullptr);
  begun.send("GET /quick HTTP/1.1\r\nHost: a\r\n\r\nGET /one HTTP/1.1\r\nHo");
  begun.read_until("GET /quick ");
  // Once another is answered the server is through with that.
  answer_to("GET /quick HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  server_->drain(30);
  server_->drain(30);
  EXPECT_THAT(begun.read_all(), StartsWith("HTTP/1.1 503"));
  begun.close();
  thread_.join();
}

// The body has been read when the server ends, and would go into its request afterwards.
TEST_F(HttpServerTest, EndsWhileABodyComes) {
  start();
  Client client(port_);
  client.send("POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
  routing_.wait();
  client.send(std::string(1000, 'x'));
  server_->drain(0);
  go_on_.count_down();
  thread_.join();
  server_.reset();
  EXPECT_THAT(client.read_all(), StartsWith("HTTP/1.1 503"));
}

}  // namespace
}  // namespace bp::server
