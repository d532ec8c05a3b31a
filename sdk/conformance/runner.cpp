#include "sdk/conformance/runner.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "sdk/conformance/subject.hpp"
#include "sdk/conformance/support/temporary_folder.hpp"

namespace bp::conformance {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxOutput = 8000;  // bytes of a test's own output that are shown, its end

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

TestResult call(const Test& test, Subject& subject) {
  try {
    test.body(subject);
    return {};
  } catch (const Skip& skip) {
    return {Outcome::kSkip, skip.what()};
  } catch (const Failure& failure) {
    return {Outcome::kFail, failure.what()};
  } catch (const std::exception& e) {
    return {Outcome::kFail, std::string("an exception crossed the plugin's boundary: ") + e.what()};
  } catch (...) {
    return {Outcome::kFail, "an exception of an unknown type crossed the plugin's boundary"};
  }
}

// The process of one test: its verdict comes through a pipe, its output through a file in memory.
class Child {
 public:
  Child(const Test& test, Subject& subject) {
    if (pipe2(verdict_, O_CLOEXEC) != 0) fail("pipe2");
    output_ = memfd_create("output", MFD_CLOEXEC);
    if (output_ < 0) fail("memfd_create");
    std::fflush(nullptr);
    pid_ = fork();
    if (pid_ < 0) fail("fork");
    if (pid_ == 0) become(test, subject);
    setpgid(pid_, pid_);
    close(verdict_[1]);
  }
  ~Child() {
    close(verdict_[0]);
    close(output_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // The bytes of the verdict, or nothing where the time ran out.
  bool read_verdict(Clock::time_point deadline, std::string& out) const {
    for (;;) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      pollfd ready{verdict_[0], POLLIN, 0};
      const int n = left <= 0 ? 0 : poll(&ready, 1, static_cast<int>(left));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      char bytes[4096];
      const ssize_t got = read(verdict_[0], bytes, sizeof bytes);
      if (got <= 0) return true;
      out.append(bytes, static_cast<size_t>(got));
    }
  }
  // Ends the test's processes; the status that wait gives.
  int end(bool kill_it) const {
    if (kill_it) kill(-pid_, SIGKILL);
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    kill(-pid_, SIGKILL);  // processes that the test left behind
    return status;
  }
  [[nodiscard]] std::string output() const {
    const off_t size = lseek(output_, 0, SEEK_END);
    const off_t begin = std::max<off_t>(0, size - static_cast<off_t>(kMaxOutput));
    std::string text(static_cast<size_t>(std::max<off_t>(0, size - begin)), '\0');
    const ssize_t got = pread(output_, text.data(), text.size(), begin);
    text.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return text;
  }

 private:
  [[noreturn]] static void fail(const char* what) {
    throw std::system_error(errno, std::generic_category(), what);
  }
  [[noreturn]] void become(const Test& test, Subject& subject) const {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!folder_.path().empty()) setenv("TMPDIR", folder_.path().c_str(), 1);
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
    dup2(output_, STDOUT_FILENO);
    dup2(output_, STDERR_FILENO);
    const TestResult result = call(test, subject);
    std::fflush(nullptr);
    std::string bytes(1, "pfs"[static_cast<int>(result.outcome)]);
    bytes += result.message;
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t n = write(verdict_[1], bytes.data() + done, bytes.size() - done);
      if (n <= 0) break;
      done += static_cast<size_t>(n);
    }
    _exit(0);
  }

  const TemporaryFolder folder_{"backplane-conform"};  // goes away even where the test crashes
  int verdict_[2] = {-1, -1};
  int output_ = -1;
  pid_t pid_ = -1;
};

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    const char* name = sigabbrev_np(number);
    return "the plugin crashed: SIG" + std::string(name == nullptr ? "?" : name) + " (" +
           sigdescr_np(number) + ")";
  }
  return "the process ended with exit code " + std::to_string(WEXITSTATUS(status));
}

TestResult judge(const Test& test, const std::string& verdict, bool in_time, int status) {
  if (!in_time) {
    return {Outcome::kFail, "did not end within " + std::to_string(test.timeout.count()) + " ms"};
  }
  const size_t outcome = verdict.empty() ? std::string::npos : std::string("pfs").find(verdict[0]);
  if (outcome == std::string::npos) {
    const bool exited = !WIFSIGNALED(status);
    return {Outcome::kFail,
            how_it_ended(status) +
                (exited ? " in the middle of the test: a plugin must not exit" : "")};
  }
  // A sanitizer says so what it found.
  if (outcome == static_cast<size_t>(Outcome::kPass) && status != 0) {
    return {Outcome::kFail, "the test passed, then " + how_it_ended(status)};
  }
  return {static_cast<Outcome>(outcome), verdict.substr(1)};
}

}  // namespace

TestResult run_apart(const Test& test, Subject& subject) {
  const auto start = Clock::now();
  const Child child(test, subject);
  std::string verdict;
  const bool in_time = child.read_verdict(start + test.timeout, verdict);
  const int status = child.end(!in_time);
  TestResult result = judge(test, verdict, in_time, status);
  const std::string output = child.output();
  if (result.outcome == Outcome::kFail && !output.empty()) {
    result.message += "\noutput of the test:\n" + output;
  }
  result.seconds = seconds_since(start);
  return result;
}

TestResult run_here(const Test& test, Subject& subject) {
  const auto start = Clock::now();
  TestResult result = call(test, subject);
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace bp::conformance
