#pragma once
// HTTP as the handlers see it: a request that has passed all checks of the wire, and an exchange to
// answer it with. No Beast here, so that few files pay for its headers.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bp::server {

struct HttpRequest {
  std::string method;  // "POST"
  std::string path;    // without query: "/v1/chat/completions"
  std::string content_type;
  std::string content_encoding;
  std::string authorization;
  std::string body;
};

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Headers headers;
  bool close = false;  // end the connection after it
};

// One request being answered. Every function may be called from any thread; after the client has
// gone away they do nothing.
class Exchange {
 public:
  virtual ~Exchange() = default;

  // The whole answer. Once, and not after start_stream.
  virtual void send(HttpResponse response) = 0;
  // The same where making it takes long: `make` runs on a worker thread, and not at all where the
  // client has gone away or the server has ended.
  virtual void send_made(std::function<HttpResponse()> make) = 0;

  // A streamed answer: start, pieces, the end with a last piece, which may be empty. What is begun
  // and written goes out with flush() or the end, that of all exchanges together: a step writes to
  // many streams.
  virtual void start_stream(std::string content_type) = 0;
  virtual void write(std::string piece) = 0;
  virtual void end_stream(std::string last) = 0;
  virtual void flush() = 0;

  // `cancel` is called once, on a server thread, if before the answer is complete the client goes
  // away (or is too slow to read), or the server ends, which leaves a moment to end the answer with
  // an error; at once if that has happened already.
  virtual void on_cancel(std::function<void()> cancel) = 0;
};

// What to do with a request once its header is there.
struct Route {
  enum class Verdict { kAccept, kRefuse };
  Verdict verdict = Verdict::kAccept;
  HttpResponse refusal;  // for kRefuse; sent before the body is read
  // Called with the whole request on a worker thread or, where it is quick, on the server's own,
  // whatever the workers are at.
  std::function<void(HttpRequest, std::shared_ptr<Exchange>)> handler;
  bool is_quick = false;
};

// Decides by method, path and headers alone (the body is empty): unknown paths, wrong methods,
// missing keys. [any-thread]
using Router = std::function<Route(const HttpRequest&)>;

struct HttpLimits {
  uint64_t max_body_bytes = 16u << 20;
  uint32_t max_header_bytes = 32u << 10;
  uint32_t max_connections = 4096;
  uint32_t header_timeout_s = 10;  // from the first byte of a request to the end of its header
  uint32_t body_timeout_s = 60;    // for the whole body
  uint32_t body_interval_s = 10;   // in each of which it must bring
  uint32_t min_body_rate = 500;    // so many bytes per second: Apache's least rate
  uint32_t idle_timeout_s = 75;    // between requests
  uint32_t write_timeout_s = 30;   // without progress
  uint64_t max_unsent_bytes = 8u << 20;  // of a stream whose client reads slowly

  // Of all bodies that are being read or wait for a worker: sixteen of the largest. No less than
  // 16 MiB, so that a low limit of one does not turn away many small ones.
  [[nodiscard]] uint64_t max_held_bytes() const {
    return 16 * std::max<uint64_t>(max_body_bytes, 1u << 20);
  }
};

}  // namespace bp::server
