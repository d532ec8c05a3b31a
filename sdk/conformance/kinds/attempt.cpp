#include "sdk/conformance/kinds/attempt.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

namespace bp::conformance {

namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM};

char note[512];
size_t note_bytes = 0;

void say(const char* text, size_t n) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, n);
}

void tell(int number) {
  constexpr char kHang[] = "it did not come back: ";
  constexpr char kCrash[] = "it crashed: ";
  number == SIGALRM ? say(kHang, sizeof kHang - 1) : say(kCrash, sizeof kCrash - 1);
  say(note, note_bytes);
  say("\n", 1);
  signal(number, SIG_DFL);
  raise(number);
}

}  // namespace

Attempt::Attempt(const std::string& what, unsigned seconds) {
  note_bytes = std::min(what.size(), sizeof note);
  std::memcpy(note, what.data(), note_bytes);
  for (const int number : kSignals) signal(number, tell);
  alarm(seconds);
}

Attempt::~Attempt() {
  alarm(0);
  for (const int number : kSignals) signal(number, SIG_DFL);
}

}  // namespace bp::conformance
