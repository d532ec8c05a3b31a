#include "sdk/conformance/kinds/attempt.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>

namespace bp::conformance {

namespace {

constexpr std::array kSignals = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM};

thread_local char note[512];
thread_local size_t note_bytes = 0;
struct sigaction before[kSignals.size()];  // a sanitizer's handlers, for example

void say(const char* text, size_t n) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, n);
}

// Says what was tried, and leaves the rest to who was there before: the faulting instruction runs
// again, the others are raised again.
void tell(int number) {
  constexpr char kHang[] = "it did not come back: ";
  constexpr char kCrash[] = "it crashed: ";
  if (note_bytes > 0) {
    number == SIGALRM ? say(kHang, sizeof kHang - 1) : say(kCrash, sizeof kCrash - 1);
    say(note, note_bytes);
    say("\n", 1);
  }
  for (size_t i = 0; i < kSignals.size(); ++i) {
    if (kSignals[i] == number) sigaction(number, &before[i], nullptr);
  }
  if (number == SIGALRM || number == SIGABRT) raise(number);
}

void install() {
  struct sigaction action {};
  action.sa_handler = tell;
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before[i]);
}

}  // namespace

Attempt::Attempt(const std::string& what, unsigned seconds) : is_timed_(seconds > 0) {
  static const bool installed = (install(), true);
  static_cast<void>(installed);
  note_bytes = std::min(what.size(), sizeof note);
  std::memcpy(note, what.data(), note_bytes);
  if (is_timed_) alarm(seconds);
}

Attempt::~Attempt() {
  if (is_timed_) alarm(0);
  note_bytes = 0;
}

}  // namespace bp::conformance
