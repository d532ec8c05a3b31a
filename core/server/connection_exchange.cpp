#include "core/server/connection_exchange.hpp"

#include <exception>
#include <utility>

#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>

#include "core/server/connection.hpp"

namespace bp::server {

namespace asio = boost::asio;

namespace {

class ConnectionExchange : public Exchange {
 public:
  ConnectionExchange(std::shared_ptr<Shared> shared, std::weak_ptr<Connection> connection,
                     uint64_t id)
      : shared_(std::move(shared)), connection_(std::move(connection)), id_(id) {}
  ~ConnectionExchange() override {
    try {
      post([id = id_](Connection& c) { c.abandoned(id); });
    } catch (const std::exception& e) {
      spdlog::error("a connection could not be told of its request's end: {}", e.what());
    }
  }

  void send(HttpResponse response) override {
    post([id = id_, r = std::move(response)](Connection& c) mutable { c.send(id, std::move(r)); });
  }
  void start_stream(std::string type) override {
    post([id = id_, t = std::move(type)](Connection& c) { c.start_stream(id, t); });
  }
  void write(std::string piece) override {
    post([id = id_, p = std::move(piece)](Connection& c) { c.write(id, p); });
  }
  void end_stream() override {
    post([id = id_](Connection& c) { c.end_stream(id); });
  }
  void on_gone(std::function<void()> gone) override {
    auto shared_gone = std::make_shared<std::function<void()>>(std::move(gone));
    asio::post(shared_->io, [weak = connection_, id = id_, shared_gone] {
      if (const auto connection = weak.lock()) {
        connection->set_gone(id, std::move(*shared_gone));
      } else {
        (*shared_gone)();
      }
    });
  }

 private:
  template <class F>
  void post(F&& f) {
    asio::post(shared_->io, [weak = connection_, f = std::forward<F>(f)]() mutable {
      if (const auto connection = weak.lock()) f(*connection);
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
