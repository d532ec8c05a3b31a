// The wire: limits, smuggling, deadlines, streams, clients that go away. Raw sockets only.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <thread>

#include "tests/core/server/transport/http_server_fixture.hpp"

namespace bp::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using namespace std::chrono_literals;
using namespace std::string_literals;

TEST_F(HttpServerTest, AnswersAndKeepsTheConnection) {
  start();
  Client client(port_);
  for (int i = 0; i < 3; ++i) {
    client.send("POST /echo?x=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
    const std::string answer = client.read_until("POST /echo hi");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(answer, HasSubstr("Connection: keep-alive"));
  }
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInOrder) {
  start();
  const std::string answer = answer_to(
      "GET /one HTTP/1.1\r\nHost: a\r\n\r\nGET /two HTTP/1.1\r\nHost: a\r\nConnection: "
      "close\r\n\r\n");
  const size_t one = answer.find("GET /one"), two = answer.find("GET /two");
  EXPECT_NE(one, std::string::npos);
  EXPECT_NE(two, std::string::npos);
  EXPECT_LT(one, two);
}

// A body would be taken for the next answer.
TEST_F(HttpServerTest, AnswersHeadWithoutABody) {
  start();
  for (const std::string path : {"/one", "/refuse"}) {
    Client client(port_);
    client.send("HEAD " + path + " HTTP/1.1\r\nHost: a\r\n\r\n");
    const std::string head = client.read_until("\r\n\r\n");
    EXPECT_THAT(head, HasSubstr("Connection: keep-alive"));
    EXPECT_THAT(head,
                HasSubstr(path == "/one" ? "Content-Length: 10\r\n" : "Content-Length: 6\r\n"));
    client.send("GET /two HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    const std::string next = client.read_all();
    EXPECT_THAT(next, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(next, HasSubstr("\r\n\r\nGET /two "));
  }
}

TEST_F(HttpServerTest, TakesThePathOfAWholeAddress) {
  start();
  const auto path_of = [this](const std::string& target) {
    return answer_to("GET " + target + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  };
  EXPECT_THAT(path_of("http://a:80/one?x=http://b/two"), HasSubstr("GET /one "));
  EXPECT_THAT(path_of("http://a"), HasSubstr("GET / "));
  EXPECT_THAT(path_of("/one/http://b/two"), HasSubstr("GET /one/http://b/two "));
}

TEST_F(HttpServerTest, ReadsChunkedBodies) {
  start();
  EXPECT_THAT(answer_to("POST /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                        "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"),
              HasSubstr("POST /x abc"));
}

TEST_F(HttpServerTest, ContinuesWhereTheClientWaits) {
  start();
  Client client(port_);
  client.send("POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_THAT(client.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 100 Continue"));
  client.send("ok");
  EXPECT_THAT(client.read_until("POST /x ok"), HasSubstr("200 OK"));
}

TEST_F(HttpServerTest, RefusesWhatCouldSmuggleARequest) {
  start();
  struct Case {
    const char* header;
    const char* status;
  };
  const Case cases[] = {
      {"Host: a\r\nTransfer-Encoding: gzip, chunked", "HTTP/1.1 501"},
      {"Host: a\r\nTransfer-Encoding: xchunked", "HTTP/1.1 501"},
      {"Host: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "HTTP/1.1 501"},
      {"Host: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5", "HTTP/1.1 400"},
      {"Host: a\r\nContent-Length: 5\r\nContent-Length: 6", "HTTP/1.1 400"},
      {"Host: a\r\nContent-Length: 5, 5", "HTTP/1.1 400"},
      {"Host: a\r\nContent-Length: +5", "HTTP/1.1 400"},
      {"Host: a\r\nHost: b", "HTTP/1.1 400"},
      {"X: y", "HTTP/1.1 400"},
      {"Host: a\r\nX: y\r\n folded", "HTTP/1.1 400"},
      {"Host : a", "HTTP/1.1 400"},
      {"Host: a\nX: y", "HTTP/1.1 400"},
      {"Host: a\r\n: y", "HTTP/1.1 400"},
  };
  for (const Case& c : cases) {
    const std::string answer = answer_to("POST /x HTTP/1.1\r\n" + std::string(c.header) +
                                         "\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_THAT(answer, StartsWith(c.status)) << c.header;
    EXPECT_THAT(answer, HasSubstr("Connection: close")) << c.header;
    EXPECT_EQ(answer.find("/next"), std::string::npos) << c.header;
  }
}

// Its version has neither, and what stands before it may not know them.
TEST_F(HttpServerTest, RefusesChunksOfOldClientsAndDoesNotContinueThem) {
  start();
  EXPECT_THAT(answer_to("POST /x HTTP/1.0\r\nConnection: keep-alive\r\n"
                        "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(answer_to("POST /x HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
                        "ok"),
              StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, SkipsEmptyLinesBetweenRequests) {
  start();
  const std::string post = "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nok\r\n";
  Client client(port_);
  for (int i = 0; i < 2; ++i) {
    client.send(post);
    EXPECT_THAT(client.read_until("POST /x ok"), StartsWith("HTTP/1.1 200"));
  }
  client.send(post + "GET /two HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.read_all(), HasSubstr("GET /two"));
}

TEST_F(HttpServerTest, RefusesGarbage) {
  start();
  const std::string with_nul = "G\0T / HTTP/1.1\r\nHost: a\r\n\r\n"s;
  for (const std::string& garbage :
       {std::string("\x16\x03\x01\r\n\r\n"), std::string("GET\r\n\r\n"),
        std::string("GET / HTTP/9.9\r\nHost: a\r\n\r\n"), with_nul}) {
    EXPECT_THAT(answer_to(garbage), StartsWith("HTTP/1.1 400")) << garbage;
  }
}

TEST_F(HttpServerTest, BoundsHeaderAndBody) {
  HttpLimits limits;
  limits.max_header_bytes = 2048;
  limits.max_body_bytes = 1000;
  start(limits);
  EXPECT_THAT(answer_to("GET /x HTTP/1.1\r\nHost: a\r\nX: " + std::string(5000, 'y')),
              StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(answer_to("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n"),
              StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(answer_to("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                        "500\r\n" +
                        std::string(0x500, 'x') + "\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 413"));
}

TEST_F(HttpServerTest, BoundsChunkExtensionsAndTrailers) {
  start();
  const std::string head = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string& body :
       {"1;" + std::string(200000, 'e'), "1\r\na\r\n0\r\nT: " + std::string(200000, 't')}) {
    const std::string answer = answer_to(head + body);
    EXPECT_TRUE(answer.empty() || answer.rfind("HTTP/1.1 4", 0) == 0) << answer;
  }
}

TEST_F(HttpServerTest, RefusesBeforeTheBodyIsRead) {
  start();
  Client client(port_);
  client.send("POST /refuse HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
  const std::string answer = client.read_all();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(answer, HasSubstr("no key"));
}

TEST_F(HttpServerTest, EndsSlowHeaders) {
  HttpLimits limits;
  limits.header_timeout_s = 1;
  start(limits);
  Client client(port_);
  const auto begin = std::chrono::steady_clock::now();
  std::thread drip([&] {
    for (int i = 0; i < 30; ++i) {
      client.send("G");
      std::this_thread::sleep_for(100ms);
    }
  });
  const std::string answer = client.read_all();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2500ms);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 408"));
  EXPECT_THAT(answer, HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_THAT(answer, HasSubstr("the request's header did not come within 1 s"));
  drip.join();
}

TEST_F(HttpServerTest, EndsWhatBeginsBehindARequestAndDoesNotGoOn) {
  HttpLimits limits;
  limits.header_timeout_s = 1;
  start(limits);
  Client client(port_);
  client.send("GET /one HTTP/1.1\r\nHost: a\r\n\r\nG");
  EXPECT_THAT(client.read_all(), HasSubstr("GET /one"));
  EXPECT_TRUE(client.closed_by_server());
}

TEST_F(HttpServerTest, EndsIdleConnections) {
  HttpLimits limits;
  limits.idle_timeout_s = 1;
  start(limits);
  Client client(port_);
  client.read_all();
  EXPECT_TRUE(client.closed_by_server());
}

TEST_F(HttpServerTest, StreamsPieces) {
  start();
  Client client(port_);
  client.send("POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
  const auto exchange = held();
  ASSERT_NE(exchange, nullptr);
  exchange->start_stream("text/event-stream");
  exchange->write("data: 1\n\n");
  exchange->flush();
  EXPECT_THAT(client.read_until("9\r\ndata: 1\n\n\r\n"),
              HasSubstr("Transfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n"));
  exchange->write("data: 2\n\n");
  exchange->end_stream("data: 3\n\n");
  EXPECT_THAT(client.read_until("0\r\n\r\n"),
              HasSubstr("9\r\ndata: 2\n\n\r\n9\r\ndata: 3\n\n\r\n0\r\n\r\n"));
  client.send("GET /again HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(client.read_until("GET /again"), HasSubstr("200 OK"));
}

TEST_F(HttpServerTest, StreamsWithoutChunksToOldClients) {
  start();
  Client client(port_);
  client.send("POST /hold HTTP/1.0\r\nContent-Length: 0\r\n\r\n");
  const auto exchange = held();
  ASSERT_NE(exchange, nullptr);
  exchange->start_stream("text/event-stream");
  exchange->write("data: 1\n\n");
  exchange->end_stream("");
  const std::string answer = client.read_all();
  EXPECT_THAT(answer, HasSubstr("\r\n\r\ndata: 1\n\n"));
  EXPECT_EQ(answer.find("chunked"), std::string::npos);
}

TEST_F(HttpServerTest, NoticesThatTheClientWentAway) {
  start();
  Client client(port_);
  client.send("POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
  ASSERT_NE(held(), nullptr);
  client.close();
  EXPECT_TRUE(client_gone_within(2s));
}

TEST_F(HttpServerTest, NoticesItBehindAPipelinedRequestToo) {
  start();
  Client client(port_);
  client.send("POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\nGET /next HTTP/1.1\r\n");
  ASSERT_NE(held(), nullptr);
  std::this_thread::sleep_for(50ms);
  client.close();
  EXPECT_TRUE(client_gone_within(2s));
}

TEST_F(HttpServerTest, GivesUpOnAClientThatDoesNotRead) {
  HttpLimits limits;
  limits.max_unsent_bytes = 1 << 20;
  start(limits);
  Client client(port_);
  client.send("POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
  const auto exchange = held();
  ASSERT_NE(exchange, nullptr);
  exchange->start_stream("text/event-stream");
  for (int i = 0; i < 200; ++i) exchange->write(std::string(1 << 17, 'x'));
  exchange->flush();
  EXPECT_TRUE(client_gone_within(5s));
}

TEST_F(HttpServerTest, WaitsForAClientThatReadsSlowly) {
  HttpLimits limits;
  limits.write_timeout_s = 1;
  start(limits);
  Client client(port_);
  client.send("GET /hold HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  const auto exchange = held();
  ASSERT_NE(exchange, nullptr);
  // What is not in the kernel's buffers takes the client more than a second.
  constexpr size_t kBytes = 20 << 20;
  HttpResponse response;
  response.body.assign(kBytes, 'x');
  exchange->send(std::move(response));
  size_t n_read = 0;
  for (size_t n = 1; n > 0; n_read += n = client.read_some(128 << 10)) {
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_GT(n_read, kBytes);
}

TEST_F(HttpServerTest, AnswersForAHandlerThatThrows) {
  start();
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(answer_to("GET /throw HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
                StartsWith("HTTP/1.1 500"));
  }
}

TEST_F(HttpServerTest, QuickHandlersDoNotWaitForWorkers) {
  start();
  Client first(port_), second(port_);
  occupy_workers(first, second);
  EXPECT_THAT(answer_to("GET /quick HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
              HasSubstr("GET /quick"));
  go_on_.count_down();
}

TEST_F(HttpServerTest, WorkersMakeWhatTakesLong) {
  start();
  Client client(port_);
  client.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
  held()->send_made([this] {
    go_on_.wait();
    HttpResponse response;
    response.body = "made";
    return response;
  });
  // Whoever asked for it need not keep the exchange.
  let_go();
  std::this_thread::sleep_for(20ms);
  go_on_.count_down();
  EXPECT_THAT(client.read_until("made"), StartsWith("HTTP/1.1 200 OK"));
  client.send("GET /again HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(client.read_until("GET /again"), HasSubstr("200 OK"));
}

TEST_F(HttpServerTest, AnswersForWhatCannotBeMade) {
  start();
  Client client(port_);
  client.send("GET /hold HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  held()->send_made([]() -> HttpResponse { throw std::bad_alloc(); });
  let_go();
  EXPECT_THAT(client.read_all(), StartsWith("HTTP/1.1 500"));
}

TEST_F(HttpServerTest, MakesNothingForAClientThatWentAway) {
  start();
  Client client(port_);
  client.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
  const auto exchange = held();
  ASSERT_NE(exchange, nullptr);
  client.close();
  ASSERT_TRUE(client_gone_within(2s));
  while (server_->n_connections() > 0) std::this_thread::sleep_for(1ms);
  std::atomic<bool> is_made = false;
  exchange->send_made([&] {
    is_made = true;
    return HttpResponse();
  });
  // By then it would have been made.
  EXPECT_THAT(answer_to("GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
              HasSubstr("GET /next"));
  EXPECT_FALSE(is_made);
}

// An engine may be through with an answer when the server has ended.
TEST_F(HttpServerTest, DropsWhatIsToBeMadeOnceItHasEnded) {
  start();
  Client client(port_);
  client.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
  const auto exchange = held();
  ASSERT_NE(exchange, nullptr);
  server_->drain(0);
  thread_.join();
  server_.reset();
  const std::weak_ptr<int> owned = owned_;
  exchange->send_made([owned = std::move(owned_)] { return HttpResponse(); });
  EXPECT_TRUE(owned.expired());
}

TEST_F(HttpServerTest, DropsRequestsThatWaitForAWorkerWhenItEnds) {
  start();
  const std::weak_ptr<int> owned = owned_;
  Client first(port_), second(port_), third(port_);
  occupy_workers(first, second);
  third.send("GET /own HTTP/1.1\r\nHost: a\r\n\r\n");
  routing_.wait();
  server_->drain(0);
  thread_.join();
  std::thread later([this] {
    std::this_thread::sleep_for(50ms);
    go_on_.count_down();
  });
  server_.reset();
  later.join();
  EXPECT_TRUE(owned.expired());
}

TEST_F(HttpServerTest, AnswersForAHandlerThatForgot) {
  start();
  EXPECT_THAT(answer_to("GET /forget HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 500"));
}

TEST(HttpServer, NamesAnAddressInUse) {
  const Router none = [](const HttpRequest&) { return Route{}; };
  const auto first = HttpServer::listen("127.0.0.1", 0, {}, none);
  ASSERT_TRUE(first.ok());
  const auto second = HttpServer::listen("127.0.0.1", (*first)->port(), {}, none);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().message(), HasSubstr("cannot listen on 127.0.0.1"));
}

}  // namespace
}  // namespace bp::server
