#include "sdk/conformance/support/backplane_server.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "sdk/conformance/test.hpp"

namespace bp::conformance {

namespace {

namespace fs = std::filesystem;

std::string read_all(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void set_dotted(YAML::Node node, const std::string& key, const std::string& value) {
  const size_t dot = key.find('.');
  if (dot == std::string::npos) {
    node[key] = value;
  } else {
    set_dotted(node[key.substr(0, dot)], key.substr(dot + 1), value);
  }
}

bool is_ok(const std::string& answer) {
  return answer.starts_with("HTTP/1.1 200 ");
}

class Socket {
 public:
  explicit Socket(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      close(fd_);
      throw Failure("backplane does not answer at its port");
    }
  }
  ~Socket() { close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  void send_all(const std::string& bytes) const {
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t n = send(fd_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
      if (n <= 0) throw Failure("backplane closed the connection in the middle of a request");
      done += static_cast<size_t>(n);
    }
  }
  [[nodiscard]] std::string receive_all() const {
    std::string bytes;
    char buffer[16384];
    for (ssize_t n; (n = recv(fd_, buffer, sizeof buffer, 0)) > 0;) {
      bytes.append(buffer, static_cast<size_t>(n));
    }
    return bytes;
  }

 private:
  int fd_;
};

}  // namespace

BackplaneServer::BackplaneServer(const Subject& subject, const ServerSettings& settings) {
  if (folder_.path().empty()) {
    throw Failure("cannot make a folder in " + fs::temp_directory_path().string());
  }
  try {
    write_config(subject, settings);
    start(subject);
    wait_until_ready();
  } catch (...) {
    stop();
    throw;
  }
}

BackplaneServer::~BackplaneServer() {
  stop();
}

void BackplaneServer::stop() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
}

void BackplaneServer::write_config(const Subject& subject, const ServerSettings& settings) {
  YAML::Node root, model;
  root["server"]["listen"] = "127.0.0.1:0";
  root["plugins"]["path"].push_back(subject.manifest().path.parent_path().string());
  model["id"] = "test";
  model["source"] = fs::absolute(settings.model).string();
  model["backend"]["plugin"] = subject.manifest().id;
  model["backend"]["threads"] = settings.n_threads;
  for (const std::string& assignment : subject.options().set) {
    const size_t equals = assignment.find('=');
    set_dotted(model["backend"], assignment.substr(0, equals), assignment.substr(equals + 1));
  }
  model["scheduler"]["plugin"] = "fcfs";
  model["scheduler"]["max_step_tokens"] = settings.max_step_tokens;
  root["models"].push_back(model);
  std::ofstream(folder_.path() / "config.yaml") << root << "\n";
}

void BackplaneServer::start(const Subject& subject) {
  const std::string program = subject.options().backplane.string();
  const std::string config = (folder_.path() / "config.yaml").string();
  const std::string log = (folder_.path() / "log").string();
  pid_ = fork();
  if (pid_ < 0) throw Failure("no process can be started");
  if (pid_ > 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  dup2(fd, STDOUT_FILENO);
  dup2(fd, STDERR_FILENO);
  execl(program.c_str(), program.c_str(), "serve", config.c_str(), nullptr);
  _exit(127);
}

void BackplaneServer::wait_until_ready() {
  const std::string mark = "listening on http://127.0.0.1:";
  for (;;) {
    const std::string log = read_all(folder_.path() / "log");
    const size_t at = log.find(mark);
    if (at != std::string::npos && log.find('\n', at) != std::string::npos) {
      port_ = static_cast<uint16_t>(std::stoul(log.substr(at + mark.size())));
      if (is_ok(request("GET", "/ready", ""))) return;
    }
    if (waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = -1;
      throw Failure("backplane serve ended before it was ready:\n" +
                    read_all(folder_.path() / "log"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

std::string BackplaneServer::request(const std::string& method, const std::string& path,
                                     const std::string& body) const {
  const Socket socket(port_);
  socket.send_all(method + " " + path +
                  " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                  "Content-Type: application/json\r\nContent-Length: " +
                  std::to_string(body.size()) + "\r\n\r\n" + body);
  return socket.receive_all();
}

std::vector<Completion> BackplaneServer::complete(const std::vector<std::vector<int32_t>>& prompts,
                                                  uint32_t max_tokens) {
  const nlohmann::json fields = {
      {"model", "test"}, {"prompt", prompts}, {"max_tokens", max_tokens}, {"temperature", 0}};
  const std::string text = request("POST", "/v1/completions", fields.dump());
  const size_t body = std::min(text.find("\r\n\r\n"), text.size());
  const auto answer = nlohmann::json::parse(text.substr(body), nullptr, false);
  if (!is_ok(text) || answer.is_discarded() || !answer.contains("choices")) {
    throw Failure("backplane answers /v1/completions with\n" + text + "\nit printed\n" +
                  read_all(folder_.path() / "log"));
  }
  std::vector<Completion> completions(prompts.size());
  for (const auto& choice : answer["choices"]) {
    completions.at(choice.at("index").get<size_t>()) = {
        choice.at("text").get<std::string>(), choice.at("finish_reason").get<std::string>()};
  }
  return completions;
}

}  // namespace bp::conformance
