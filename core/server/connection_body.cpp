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
using Clock = std::chrono::steady_clock;

namespace {

Refusal too_many_bodies(uint64_t limit) {
  return {503,
          fmt::format("the bodies of all requests together have more than {} MiB; try again later",
                      limit >> 20),
          {},
          {}};
}

}  // namespace

// The body may come before that has gone.
void Connection::send_continue() {
  queue("HTTP/1.1 100 Continue\r\n\r\n");
}

void Connection::begin_body() {
  if (parser_->is_done()) return body_came({});
  enter(State::kReadingBody);
  stream_.expires_never();
  parser_->eager(true);
  held_body_ = std::make_shared<HeldBody>(shared_->held_bytes);
  body_began_ = Clock::now();
  n_body_seen_ = 0;
  await_body();
  parse_body();
}

// One deadline for the whole body, and before it one of each interval.
void Connection::await_body() {
  const HttpLimits& limits = shared_->limits;
  const auto next = Clock::now() + seconds(limits.body_interval_s);
  await_until(std::min(body_began_ + seconds(limits.body_timeout_s), next),
              &Connection::look_at_body);
}

void Connection::look_at_body() {
  const HttpLimits& limits = shared_->limits;
  if (Clock::now() - body_began_ >= seconds(limits.body_timeout_s)) {
    return body_is_late(fmt::format("did not come within {} s", limits.body_timeout_s));
  }
  const uint64_t n_least = uint64_t{limits.min_body_rate} * limits.body_interval_s;
  const uint64_t n_bytes = parser_->get().body().size();
  if (n_bytes < n_body_seen_ + n_least) {
    return body_is_late(fmt::format("came too slowly: fewer than {} bytes in {} s", n_least,
                                    limits.body_interval_s));
  }
  n_body_seen_ = n_bytes;
  await_body();
}

void Connection::body_is_late(const std::string& how) {
  interrupt_reading({408, "the request's body " + how, {}, {}});
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
  const bool fits = held_body_->grow(parser_->get().body().size(), limit);
  if (!fits && !make_room(limit)) return refuse(too_many_bodies(limit));
  if (parser_->is_done()) return body_came({});
  read_more_of_body();
}

// A body that takes longer than others gives way to them, the largest first: else those of a few
// clients that send slowly would turn away everybody.
bool Connection::make_room(uint64_t limit) {
  while (*shared_->held_bytes > limit) {
    Connection* largest =
        *std::ranges::max_element(shared_->open, {}, &Connection::n_bytes_of_slow_body);
    if (largest == this || largest->n_bytes_of_slow_body() == 0) return false;
    largest->held_body_.reset();
    largest->interrupt_reading(too_many_bodies(limit));
  }
  return true;
}

// None where it has come for less than an interval.
uint64_t Connection::n_bytes_of_slow_body() const {
  if (state_ != State::kReadingBody || held_body_ == nullptr) return 0;
  const auto interval = seconds(shared_->limits.body_interval_s);
  return Clock::now() - body_began_ > interval ? held_body_->n_bytes() : 0;
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
