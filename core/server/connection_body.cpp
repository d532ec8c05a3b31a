// How a connection reads a request's body, within its own limit and that of all together.

#include "core/server/connection.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <boost/beast/http/error.hpp>

namespace bp::server {

namespace http = boost::beast::http;
using std::chrono::seconds;

// The body may come before that has gone.
void Connection::send_continue() {
  queue("HTTP/1.1 100 Continue\r\n\r\n");
}

// One deadline for the whole body.
void Connection::begin_body() {
  if (parser_->is_done()) return body_came({});
  enter(State::kReadingBody);
  stream_.expires_after(seconds(shared_->limits.body_timeout_s));
  parser_->eager(true);
  held_body_ = std::make_shared<HeldBody>(shared_->held_bytes);
  parse_body();
}

void Connection::read_more_of_body() {
  // Full where a chunk's header or a trailer does not end.
  const size_t room = std::min(kReadBytes, buffer_.max_size() - buffer_.size());
  if (room == 0) return body_came(http::make_error_code(http::error::buffer_overflow));
  read_some(room, &Connection::parse_body);
}

void Connection::parse_body() {
  if (buffer_.size() == 0) return read_more_of_body();
  boost::system::error_code error;
  buffer_.consume(parser_->put(buffer_.data(), error));
  if (error && error != http::error::need_more) return body_came(error);
  const uint64_t limit = shared_->limits.max_held_bytes();
  if (!held_body_->grow(parser_->get().body().size(), limit)) {
    return refuse({503,
                   fmt::format("the bodies of all requests together have more than {} MiB; "
                               "try again later",
                               limit >> 20),
                   {},
                   {}});
  }
  if (parser_->is_done()) return body_came({});
  read_more_of_body();
}

// The end of the body, or what is wrong in it.
void Connection::body_came(const boost::system::error_code& error) {
  if (error == http::error::body_limit) {
    return refuse({413, "the request's body is too large", {}, {}});
  }
  if (error) return refuse({400, "the request's body is no valid HTTP", {}, {}});
  request_.body = std::move(parser_->get().body());
  parser_.reset();
  dispatch();
}

}  // namespace bp::server
