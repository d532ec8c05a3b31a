#pragma once
// One client's connection: requests one after another, each within its deadlines. Everything here
// runs on the input/output thread; the Exchange it gives out may be used from any thread.

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "core/server/held_body.hpp"
#include "core/server/http.hpp"
#include "core/server/outbox.hpp"
#include "core/server/refusal.hpp"
#include "core/server/workers.hpp"

namespace bp::server {

class Connection;

// What all connections of a server share. Kept alive by each exchange, since answers may still come
// when the server is gone.
struct Shared {
  boost::asio::io_context io{1};
  Outbox outbox{io};
  Workers workers;
  HttpLimits limits;
  Router router;
  bool draining = false;
  bool cuts_short = false;  // what is still at work when the grace time is over
  std::set<Connection*> open;
  std::atomic<uint32_t> n_open{0};
  HeldBody::Sum held_bytes = std::make_shared<std::atomic<uint64_t>>(0);
  uint32_t n_at_work = 0;          // connections that a draining server waits for
  std::function<void()> on_quiet;  // when there are none any more
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::ip::tcp::socket socket, std::shared_ptr<Shared> shared);
  ~Connection();

  void start();
  // Closes now if idle, else after the answer in work. Of a request whose body still comes that is
  // a refusal, as new ones get it.
  void close_when_idle();
  // Ends with an error what is at work: an answer, or a request that still comes.
  void cut_short();
  void close_now();

  // The exchange's side: connection_answer.cpp.
  void send(uint64_t exchange, HttpResponse response);
  void start_stream(uint64_t exchange, const std::string& content_type);
  void write(uint64_t exchange, const std::string& piece);
  void end_stream(uint64_t exchange, const std::string& last);
  void set_cancel(uint64_t exchange, std::function<void()> cancel);
  void abandoned(uint64_t exchange);

 private:
  enum class State {
    kIdle,
    kReadingHeader,
    kReadingBody,
    kAnswering,
    kStreaming,
    kLingering,
    kClosed
  };
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  static constexpr size_t kReadBytes = 8 << 10;  // at a time

  void await_request();
  void begin_header();
  void read_header();
  void header_bytes_came();
  void skip_empty_lines();
  void process_header(size_t n_header);
  void accept(Route route, HttpRequest request);
  void dispatch();

  // The body: connection_body.cpp.
  void send_continue();
  void begin_body();
  void await_body();
  void look_at_body();
  void body_is_late(const std::string& how);
  [[nodiscard]] bool make_room(uint64_t limit);
  [[nodiscard]] uint64_t n_bytes_of_slow_body() const;
  void read_more_of_body();
  void parse_body();
  void body_came(const boost::system::error_code& error);

  // The reading of both.
  void read_some(size_t room, void (Connection::*then)());
  void await_until(std::chrono::steady_clock::time_point end, void (Connection::*late)());
  void header_is_late();
  void interrupt_reading(Refusal refusal);

  void watch_for_close();
  void look_at_socket();
  void poll_socket();
  void client_is_gone();

  // What answers: connection_answer.cpp.
  void respond(HttpResponse response);
  void refuse(const Refusal& refusal);
  [[nodiscard]] std::string framed(const std::string& piece) const;
  [[nodiscard]] size_t send_at_once(std::string_view bytes);
  void queue(std::string bytes);
  void write_next();
  void wrote(const boost::system::error_code& error, size_t n);
  void answer_is_complete();

  void linger();
  void discard();

  void enter(State state);
  [[nodiscard]] bool is_answering() const {
    return state_ == State::kAnswering || state_ == State::kStreaming;
  }
  [[nodiscard]] bool is_reading() const {
    return state_ == State::kReadingHeader || state_ == State::kReadingBody;
  }
  // Closing it now would take something from its client.
  [[nodiscard]] bool is_at_work() const {
    return is_answering() || state_ == State::kReadingBody ||
           (state_ == State::kLingering && leaves_unread_);
  }
  [[nodiscard]] bool is_current(uint64_t exchange) const {
    return exchange == exchange_ && state_ != State::kClosed;
  }

  boost::beast::tcp_stream stream_;
  std::shared_ptr<Shared> shared_;
  boost::beast::flat_buffer buffer_;
  boost::asio::steady_timer timer_;  // of what its state waits for
  std::optional<Parser> parser_;
  std::shared_ptr<HeldBody> held_body_;  // of the request in the parser
  std::chrono::steady_clock::time_point body_began_;
  uint64_t n_body_seen_ = 0;  // bytes of it by the last interval's end
  HttpRequest request_;
  Route route_;
  State state_ = State::kIdle;
  std::optional<Refusal> interruption_;  // of the reading; what is pending of it ends first
  uint64_t exchange_ = 0;                // counts requests; answers to an older one are dropped
  bool keep_alive_ = false;
  bool chunked_ = false;          // the stream's pieces are framed
  bool is_head_ = false;          // the request wants the answer's header alone
  bool answer_ended_ = false;     // the last byte of the answer is queued
  bool leaves_unread_ = false;    // the answer came before the end of its request
  std::function<void()> cancel_;  // ends the handler's work
  std::deque<std::string> unsent_;
  size_t n_front_sent_ = 0;    // bytes of the front that the kernel has
  uint64_t unsent_bytes_ = 0;  // without those
  bool writing_ = false;
};

}  // namespace bp::server
