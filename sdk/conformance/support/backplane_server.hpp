#pragma once
// `backplane serve` as a process, with the plugin under test as its backend.

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "sdk/conformance/subject.hpp"
#include "sdk/conformance/support/temporary_folder.hpp"

namespace bp::conformance {

struct ServerSettings {
  std::filesystem::path model;
  uint32_t max_step_tokens = 256;
  uint32_t n_threads = 1;
};

struct Completion {
  std::string text, finish_reason;
};

class BackplaneServer {
 public:
  // Waits until the model is ready. Throws Failure with what it printed where it ends before.
  BackplaneServer(const Subject& subject, const ServerSettings& settings);
  ~BackplaneServer();
  BackplaneServer(const BackplaneServer&) = delete;
  BackplaneServer& operator=(const BackplaneServer&) = delete;

  // Greedy answers to prompts of token ids, all in one request. Throws Failure for an error.
  [[nodiscard]] std::vector<Completion> complete(const std::vector<std::vector<int32_t>>& prompts,
                                                 uint32_t max_tokens);

 private:
  void write_config(const Subject& subject, const ServerSettings& settings);
  void start(const Subject& subject);
  void wait_until_ready();
  void stop();
  // The whole answer.
  [[nodiscard]] std::string request(const std::string& method, const std::string& path,
                                    const std::string& body) const;

  TemporaryFolder folder_{"backplane-conform"};  // configuration and what the server prints
  pid_t pid_ = -1;
  uint16_t port_ = 0;
};

}  // namespace bp::conformance
