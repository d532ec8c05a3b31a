// What a connection sends: answers, whole and in pieces, as fast as the client takes them.

#include "core/server/connection.hpp"

#include <sys/socket.h>

#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <boost/beast/http/status.hpp>

#include "core/server/error_body.hpp"
#include "core/server/refusal.hpp"

namespace bp::server {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using std::chrono::seconds;

namespace {

constexpr const char* kLastChunk = "0\r\n\r\n";
constexpr size_t kMostPerSend = 256 << 10;

std::string status_line(int status) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\n", status,
      std::string(http::obsolete_reason(http::int_to_status(static_cast<unsigned>(status)))));
}

std::string chunk(const std::string& piece) {
  return fmt::format("{:x}\r\n", piece.size()) + piece + "\r\n";
}

}  // namespace

void Connection::send(uint64_t exchange, HttpResponse response) {
  if (is_current(exchange) && state_ == State::kAnswering) respond(std::move(response));
}

void Connection::refuse(const Refusal& refusal) {
  ++exchange_;
  parser_.reset();
  held_body_.reset();
  HttpResponse response = to_response(refusal);
  response.close = true;
  respond(std::move(response));
}

void Connection::respond(HttpResponse response) {
  enter(State::kAnswering);
  answer_ended_ = true;
  keep_alive_ = keep_alive_ && !response.close && !shared_->draining;
  leaves_unread_ = response.close;
  std::string head = status_line(response.status);
  head += fmt::format("Content-Type: {}\r\nContent-Length: {}\r\nConnection: {}\r\n",
                      response.content_type, response.body.size(),
                      keep_alive_ ? "keep-alive" : "close");
  for (const auto& [name, value] : response.headers) {
    head += fmt::format("{}: {}\r\n", name, value);
  }
  head += "\r\n";
  if (!is_head_) head += response.body;
  queue(std::move(head));
}

void Connection::start_stream(uint64_t exchange, const std::string& content_type) {
  if (!is_current(exchange) || state_ != State::kAnswering) return;
  enter(State::kStreaming);
  keep_alive_ = keep_alive_ && chunked_ && !shared_->draining;
  queue(fmt::format("{}Content-Type: {}\r\nCache-Control: no-cache\r\nConnection: {}\r\n{}\r\n",
                    status_line(200), content_type, keep_alive_ ? "keep-alive" : "close",
                    chunked_ ? "Transfer-Encoding: chunked\r\n" : ""));
}

void Connection::write(uint64_t exchange, const std::string& piece) {
  if (!is_current(exchange) || state_ != State::kStreaming || piece.empty()) return;
  if (unsent_bytes_ + piece.size() > shared_->limits.max_unsent_bytes) return client_is_gone();
  std::string bytes = framed(piece);
  if (!writing_) bytes.erase(0, send_at_once(bytes));
  if (!bytes.empty()) queue(std::move(bytes));
}

// How many bytes the kernel takes now: nearly always all, which spares a stream's pieces the
// deadline and the wait for a completion. An error shows again where the rest is written.
size_t Connection::send_at_once(std::string_view bytes) {
  const int handle = stream_.socket().native_handle();
  const ssize_t n = ::send(handle, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return n > 0 ? static_cast<size_t>(n) : 0;
}

// In one send with the last piece.
void Connection::end_stream(uint64_t exchange, const std::string& last) {
  if (!is_current(exchange) || state_ != State::kStreaming || answer_ended_) return;
  if (unsent_bytes_ + last.size() > shared_->limits.max_unsent_bytes) return client_is_gone();
  answer_ended_ = true;
  queue(framed(last) + (chunked_ ? kLastChunk : ""));
}

std::string Connection::framed(const std::string& piece) const {
  return chunked_ && !piece.empty() ? chunk(piece) : piece;
}

void Connection::set_cancel(uint64_t exchange, std::function<void()> cancel) {
  const bool open = is_current(exchange) && !answer_ended_;
  if (open && !shared_->cuts_short) {
    cancel_ = std::move(cancel);
  } else if (state_ == State::kClosed || shared_->cuts_short) {
    cancel();
  }
}

// A handler that forgot to answer is our bug; the client still gets an end.
void Connection::abandoned(uint64_t exchange) {
  if (!is_current(exchange) || answer_ended_) return;
  if (state_ == State::kStreaming) return close_now();
  HttpResponse response;
  response.status = 500;
  response.body = error_body(500, "the request was dropped by the server");
  respond(std::move(response));
}

void Connection::queue(std::string bytes) {
  unsent_bytes_ += bytes.size();
  // The front may be on its way to the kernel; what waits behind it shares one send.
  constexpr size_t kOneSend = 64 << 10;
  if (unsent_.size() > 1 && unsent_.back().size() + bytes.size() <= kOneSend) {
    unsent_.back() += bytes;
  } else {
    unsent_.push_back(std::move(bytes));
  }
  if (!writing_) write_next();
}

// The deadline begins anew with all that the kernel takes: a client may read a long answer slowly.
void Connection::write_next() {
  writing_ = true;
  stream_.expires_after(seconds(shared_->limits.write_timeout_s));
  stream_.async_write_some(
      asio::buffer(asio::buffer(unsent_.front()) + n_front_sent_, kMostPerSend),
      [self = shared_from_this()](const auto& error, size_t n) { self->wrote(error, n); });
}

void Connection::wrote(const boost::system::error_code& error, size_t n) {
  writing_ = false;
  if (state_ == State::kClosed) return;
  if (error) return close_now();
  unsent_bytes_ -= n;
  n_front_sent_ += n;
  if (n_front_sent_ < unsent_.front().size()) return write_next();
  n_front_sent_ = 0;
  unsent_.pop_front();
  if (!unsent_.empty()) return write_next();
  stream_.expires_never();
  if (answer_ended_) answer_is_complete();
}

void Connection::answer_is_complete() {
  cancel_ = nullptr;
  timer_.cancel();
  ++exchange_;
  if (!keep_alive_ || shared_->draining) return linger();
  stream_.socket().cancel();  // the watch; nothing else is pending
  await_request();
}

}  // namespace bp::server
