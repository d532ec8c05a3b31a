#pragma once
// An app over a real engine whose model is scripted, and a client without sockets.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/engine/parts.hpp"
#include "core/server/app.hpp"
#include "core/server/workers.hpp"
#include "tests/core/engine/fake_backend.hpp"

namespace bp::server::testing {

using Json = nlohmann::ordered_json;

// Ids of the test vocabulary: the 256 bytes, then these.
inline constexpr int32_t kStart = 256;  // <|start|>, BOS, which prompts do not get by themselves
inline constexpr int32_t kEnd = 257;    // <|im_end|>, ends an answer
inline constexpr int32_t kUserDefined = 258;

// What the model says to a chat, before it ends its turn; to other prompts it goes on with the
// alphabet, position by position.
inline constexpr std::string_view kReply = "Gr\xC3\xBC\xC3\x9F dich, Welt!";

struct ClientView : Exchange, std::enable_shared_from_this<ClientView> {
  explicit ClientView(Workers& its_workers) : workers(its_workers) {}

  void send(HttpResponse r) override;
  void send_made(std::function<HttpResponse()> make) override;
  void start_stream(std::string content_type) override;
  void write(std::string piece) override;
  void end_stream(std::string last) override;
  void flush() override {}
  void on_cancel(std::function<void()> cancel) override;

  void wait_for_end();
  void wait_for_pieces(size_t n);
  [[nodiscard]] bool has_ended();
  // The client goes away, or the server ends.
  void cancel();
  [[nodiscard]] Json json() const { return Json::parse(response.body); }
  // The events of a stream but the last, which is checked to be [DONE].
  [[nodiscard]] std::vector<Json> events();

  Workers& workers;
  HttpResponse response;  // of a stream: its content type
  bool streamed = false;
  std::vector<std::string> pieces;

 private:
  void end(std::unique_lock<std::mutex> lock);
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> cancel_;
  bool ended_ = false;
};

using Client = std::shared_ptr<ClientView>;

class ServerTest : public ::testing::Test {
 protected:
  ServerTest();
  ~ServerTest() override;

  // Loads the model "tiny"; `config` and `limits` may be changed before.
  void start();
  [[nodiscard]] std::shared_ptr<runtime::ServedModel> make_model(const std::string& id);

  // Does not wait for the answer.
  Client request(HttpRequest request);
  Client post(const std::string& path, const std::string& body);
  Client get(const std::string& path);
  // Waits.
  Client ask(const std::string& path, const Json& body);
  // Asks for a chat about `content`, with more fields.
  Client chat(const std::string& content, Json more = Json::object());
  Client complete(const Json& prompt, Json more = Json::object());
  [[nodiscard]] const engine::Stats& stats() const { return tiny->engine->stats(); }
  void wait_until_idle() const;

  engine::testing::FakeModel model;
  config::Server config;
  engine::Limits limits{
      .context = 256, .max_step_tokens = 64, .max_sequences = 16, .max_output_rows = 64};
  uint32_t n_blocks = 300;
  // Before start().
  std::string template_source;
  std::string reply{kReply};                // to a chat; texts of control tokens become those
  std::vector<std::string> control_tokens;  // further ones of the vocabulary, from 259 on
  std::unique_ptr<App> app;
  std::shared_ptr<runtime::ServedModel> tiny;
  Workers workers;  // those of all clients

 private:
  [[nodiscard]] std::optional<int32_t> next_token(std::span<const int32_t> history) const;

  std::vector<int32_t> reply_ids_;
};

}  // namespace bp::server::testing
