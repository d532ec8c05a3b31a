// The wire: limits, smuggling, deadlines, streams, clients that go away, draining. Raw sockets
// only.

#include "core/server/http_server.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <latch>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace bp::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using namespace std::chrono_literals;
using namespace std::string_literals;

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
    changed_.wait_for(lock, 5s, [this] { return exchange_ != nullptr; });
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
