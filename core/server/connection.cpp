#include "core/server/connection.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <boost/beast/http/error.hpp>

#include "core/server/connection_exchange.hpp"
#include "core/server/header_checks.hpp"

namespace bp::server {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kHeaderEnd = "\r\n\r\n";

// Of "/path?query", or of "http://host/path?query", which proxies send.
std::string path_of(beast::string_view target) {
  const size_t scheme = target.find("://");
  if (!target.starts_with('/') && scheme != beast::string_view::npos) {
    const size_t path = target.find('/', scheme + 3);
    if (path == beast::string_view::npos) return "/";
    target.remove_prefix(path);
  }
  return std::string(target.substr(0, target.find('?')));
}

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, std::shared_ptr<Shared> shared)
    : stream_(std::move(socket)),
      shared_(std::move(shared)),
      buffer_(shared_->limits.max_header_bytes + kReadBytes),
      timer_(shared_->io) {
  shared_->open.insert(this);
  ++shared_->n_open;
}

// Reached without close_now when a handler of its own ran out of memory.
Connection::~Connection() {
  enter(State::kClosed);
  if (cancel_) cancel_();
  shared_->open.erase(this);
  --shared_->n_open;
}

void Connection::enter(State state) {
  const bool before = is_at_work();
  state_ = state;
  if (is_at_work() == before) return;
  shared_->n_at_work += before ? -1 : 1;
  if (shared_->n_at_work == 0 && shared_->on_quiet) shared_->on_quiet();
}

void Connection::start() {
  boost::system::error_code ignored;
  stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  await_request();
}

void Connection::close_now() {
  if (state_ == State::kClosed) return;
  enter(State::kClosed);
  timer_.cancel();
  boost::system::error_code ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  stream_.close();
  if (auto cancel = std::exchange(cancel_, nullptr)) cancel();
}

void Connection::close_when_idle() {
  keep_alive_ = false;
  if (state_ == State::kIdle) close_now();
  if (state_ == State::kReadingBody) interrupt_reading(shutting_down());
}

// What its handler cannot be told to end yet is answered here; what still comes of it is dropped.
void Connection::cut_short() {
  if (is_reading()) return interrupt_reading(shutting_down());
  if (auto cancel = std::exchange(cancel_, nullptr)) return cancel();
  if (state_ == State::kAnswering && !answer_ended_) refuse(shutting_down());
}

// ---- reading ------------------------------------------------------------------------------------

void Connection::await_request() {
  is_head_ = answer_ended_ = leaves_unread_ = false;
  enter(State::kIdle);
  stream_.expires_after(seconds(shared_->limits.idle_timeout_s));
  // They may have come with the request before.
  header_bytes_came();
}

// One deadline for the whole header, however slowly its bytes come.
void Connection::begin_header() {
  enter(State::kReadingHeader);
  stream_.expires_never();
  await_until(Clock::now() + seconds(shared_->limits.header_timeout_s),
              &Connection::header_is_late);
}

void Connection::header_is_late() {
  interrupt_reading({408,
                     fmt::format("the request's header did not come within {} s",
                                 shared_->limits.header_timeout_s),
                     {},
                     {}});
}

void Connection::read_header() {
  const auto data = static_cast<const char*>(buffer_.data().data());
  const size_t end = std::string_view(data, buffer_.size()).find(kHeaderEnd);
  if (end != std::string_view::npos) return process_header(end + kHeaderEnd.size());
  if (buffer_.size() >= shared_->limits.max_header_bytes) {
    return refuse({431, "the request's header is too large", {}, {}});
  }
  read_some(kReadBytes, &Connection::header_bytes_came);
}

void Connection::header_bytes_came() {
  if (state_ == State::kIdle) {
    skip_empty_lines();
    if (buffer_.size() > 0) begin_header();
  }
  read_header();
}

// Some clients send one behind a body, which its length does not count (RFC 9112, 2.2).
void Connection::skip_empty_lines() {
  const std::string_view data(static_cast<const char*>(buffer_.data().data()), buffer_.size());
  size_t n = 0;
  while (data.substr(n).starts_with(kLineEnd)) n += kLineEnd.size();
  buffer_.consume(n);
}

void Connection::read_some(size_t room, void (Connection::*then)()) {
  stream_.async_read_some(buffer_.prepare(room),
                          [self = shared_from_this(), then](const auto& error, size_t n) {
                            if (self->state_ == State::kClosed) return;
                            if (self->interruption_) return self->refuse(*self->interruption_);
                            if (error) return self->close_now();
                            self->buffer_.commit(n);
                            (self.get()->*then)();
                          });
}

// The stream's own deadlines close it without a word.
void Connection::await_until(Clock::time_point end, void (Connection::*late)()) {
  timer_.expires_at(end);
  timer_.async_wait([weak = weak_from_this(), late](const auto& error) {
    const auto self = weak.lock();
    if (error || self == nullptr || !self->is_reading()) return;
    // Not one that was over when another began.
    if (self->timer_.expiry() <= Clock::now()) (self.get()->*late)();
  });
}

// A read is always pending, or about to be told of, while a request comes.
void Connection::interrupt_reading(Refusal refusal) {
  interruption_ = std::move(refusal);
  boost::system::error_code ignored;
  stream_.socket().cancel(ignored);
}

void Connection::process_header(size_t n_header) {
  keep_alive_ = false;
  const auto data = static_cast<const char*>(buffer_.data().data());
  if (HeaderFault fault = check_header({data, n_header}); fault.status != 0) {
    return refuse({fault.status, fault.message, {}, {}});
  }
  parser_.emplace();
  parser_->header_limit(shared_->limits.max_header_bytes);
  parser_->body_limit(shared_->limits.max_body_bytes);
  boost::system::error_code error;
  const size_t used = parser_->put(asio::buffer(data, n_header), error);
  if (error == http::error::body_limit) return body_came(error);
  if (error || !parser_->is_header_done()) {
    return refuse({400, "the request is no valid HTTP", {}, {}});
  }
  buffer_.consume(used);
  const auto& message = parser_->get();
  HttpRequest request;
  request.method = std::string(message.method_string());
  request.path = path_of(message.target());
  is_head_ = message.method() == http::verb::head;
  request.content_type = std::string(message[http::field::content_type]);
  request.content_encoding = std::string(message[http::field::content_encoding]);
  request.authorization = std::string(message[http::field::authorization]);
  keep_alive_ = message.keep_alive() && !shared_->draining;
  chunked_ = message.version() >= 11;
  Route route = shared_->router(request);
  accept(std::move(route), std::move(request));
}

void Connection::accept(Route route, HttpRequest request) {
  request_ = std::move(request);
  route_ = std::move(route);
  if (route_.verdict == Route::Verdict::kRefuse) {
    ++exchange_;
    // An unread body would be taken for the next request.
    if (!parser_->is_done()) route_.refusal.close = true;
    return respond(std::move(route_.refusal));
  }
  const auto& message = parser_->get();
  const bool waits =
      message.version() >= 11 && same_ignoring_case(message[http::field::expect], "100-continue");
  if (waits && !parser_->is_done()) send_continue();
  begin_body();
}

void Connection::dispatch() {
  enter(State::kAnswering);
  ++exchange_;
  timer_.cancel();
  watch_for_close();
  auto exchange = make_exchange(shared_, weak_from_this(), exchange_);
  std::function<void()> work = [handler = std::move(route_.handler), request = std::move(request_),
                                exchange = std::move(exchange),
                                held = std::move(held_body_)]() mutable {
    handler(std::move(request), std::move(exchange));
  };
  if (route_.is_quick) return run_work(work);
  shared_->workers.post(std::move(work));
}

// ---- noticing that the client has gone ----------------------------------------------------------

void Connection::watch_for_close() {
  const auto id = exchange_;
  stream_.socket().async_wait(asio::ip::tcp::socket::wait_read,
                              [self = shared_from_this(), id](const auto& error) {
                                if (!error && self->is_current(id)) self->look_at_socket();
                              });
}

void Connection::look_at_socket() {
  if (!is_answering()) return;
  char byte = 0;
  const ssize_t n = ::recv(stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  const bool again = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  if (n == 0 || (n < 0 && !again)) return client_is_gone();
  poll_socket();
}

// The next request's bytes hide the end behind them: ask the kernel for the connection's state.
void Connection::poll_socket() {
  const auto id = exchange_;
  timer_.expires_after(std::chrono::milliseconds(500));
  timer_.async_wait([self = shared_from_this(), id](const auto& error) {
    if (error || !self->is_current(id)) return;
    tcp_info info{};
    socklen_t size = sizeof info;
    const int handle = self->stream_.socket().native_handle();
    const bool known = ::getsockopt(handle, IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
    if (!known || info.tcpi_state != TCP_ESTABLISHED) return self->client_is_gone();
    self->poll_socket();
  });
}

void Connection::client_is_gone() {
  close_now();
}

// ---- after the last answer ----------------------------------------------------------------------

// Closing with unread bytes would reset the connection and could take the answer with it: end our
// side and read what still comes, for a moment.
void Connection::linger() {
  enter(State::kLingering);
  boost::system::error_code ignored;
  stream_.socket().cancel(ignored);
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  timer_.expires_after(seconds(1));
  timer_.async_wait([weak = weak_from_this()](const auto& error) {
    const auto self = weak.lock();
    if (!error && self != nullptr) self->close_now();
  });
  discard();
}

void Connection::discard() {
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(kReadBytes),
                          [self = shared_from_this()](const auto& error, size_t) {
                            if (self->state_ == State::kClosed) return;
                            if (error) return self->close_now();
                            self->discard();
                          });
}

}  // namespace bp::server
