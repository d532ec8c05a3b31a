#include "bench/cuda/current_test.hpp"

#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>

namespace bp::bench {

namespace {

constexpr std::array kSignals = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM, SIGTERM};

const char* volatile name_of_current = nullptr;
alignas(16) char handler_stack[64 << 10];

void put(const char* text) {
  [[maybe_unused]] const ssize_t n = write(STDOUT_FILENO, text, std::strlen(text));
}

void name_and_end(int number) {
  put("fail  ");
  put(name_of_current == nullptr ? "no test" : name_of_current);
  put(": ended by SIG");
  const char* name = sigabbrev_np(number);
  put(name == nullptr ? "?" : name);
  put(number == SIGALRM ? ", its time is over; later tests did not run\n"
                        : "; later tests did not run\n");
  std::signal(number, SIG_DFL);
  raise(number);
}

void handle_signals() {
  stack_t stack{};
  stack.ss_sp = handler_stack;
  stack.ss_size = sizeof handler_stack;
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_handler = name_and_end;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  for (const int number : kSignals) sigaction(number, &action, nullptr);
}

void set_alarm(std::chrono::milliseconds time) {
  itimerval timer{};
  timer.it_value.tv_sec = time.count() / 1000;
  timer.it_value.tv_usec = time.count() % 1000 * 1000;
  setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace

CurrentTest::CurrentTest(const std::string& name, std::chrono::milliseconds timeout) {
  name_of_current = name.c_str();
  handle_signals();
  set_alarm(timeout);
}

CurrentTest::~CurrentTest() {
  set_alarm({});
  name_of_current = nullptr;
}

}  // namespace bp::bench
