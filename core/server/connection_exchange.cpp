#include "core/server/connection_exchange.hpp"

#include <exception>
#include <utility>

#include <spdlog/spdlog.h>

#include "core/server/connection.hpp"

namespace bp::server {

namespace {

class ConnectionExchange : public Exchange,
                           public std::enable_shared_from_this<ConnectionExchange> {
 public:
  ConnectionExchange(std::shared_ptr<Shared> shared, std::weak_ptr<Connection> connection,
                     uint64_t id)
      : shared_(std::move(shared)), connection_(std::move(connection)), id_(id) {}
  ~ConnectionExchange() override {
    try {
      put([id = id_](Connection& c) { c.abandoned(id); });
      flush();
    } catch (const std::exception& e) {
      spdlog::error("a connection could not be told of its request's end: {}", e.what());
    }
  }

  void send(HttpResponse response) override {
    put([id = id_, r = std::move(response)](Connection& c) mutable { c.send(id, std::move(r)); });
    flush();
  }
  // Alive until then, since its end would be that of the answer.
  void send_made(std::function<HttpResponse()> make) override {
    shared_->workers.post([self = shared_from_this(), make = std::move(make)] {
      if (!self->connection_.expired()) self->send(make());
    });
  }
  void start_stream(std::string type) override {
    put([id = id_, t = std::move(type)](Connection& c) { c.start_stream(id, t); });
  }
  void write(std::string piece) override {
    put([id = id_, p = std::move(piece)](Connection& c) { c.write(id, p); });
  }
  void end_stream(std::string last) override {
    put([id = id_, p = std::move(last)](Connection& c) { c.end_stream(id, p); });
    flush();
  }
  void flush() override { shared_->outbox.send(); }
  void on_cancel(std::function<void()> cancel) override {
    shared_->outbox.put([weak = connection_, id = id_, cancel = std::move(cancel)] {
      if (const auto connection = weak.lock()) {
        connection->set_cancel(id, cancel);
      } else {
        cancel();
      }
    });
    flush();
  }

 private:
  // A connection that cannot take its call ends: its answer would go on with a gap.
  template <class F>
  void put(F&& f) {
    shared_->outbox.put([weak = connection_, f = std::forward<F>(f)]() mutable {
      const auto connection = weak.lock();
      if (connection == nullptr) return;
      try {
        f(*connection);
      } catch (...) {
        connection->close_now();
        throw;
      }
    });
  }

  std::shared_ptr<Shared> shared_;
  std::weak_ptr<Connection> connection_;
  uint64_t id_;
};

}  // namespace

std::shared_ptr<Exchange> make_exchange(std::shared_ptr<Shared> shared,
                                        std::weak_ptr<Connection> connection, uint64_t id) {
  return std::make_shared<ConnectionExchange>(std::move(shared), std::move(connection), id);
}

}  // namespace bp::server
