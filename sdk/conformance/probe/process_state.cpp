#include "sdk/conformance/probe/process_state.hpp"

#include <unistd.h>

#include <cfenv>
#include <clocale>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace bp::conformance {

namespace {

constexpr int kSignals = 64;

uint64_t float_mode() {
#if defined(__x86_64__)
  constexpr uint64_t sticky_flags = 0x3f;
  return _mm_getcsr() & ~sticky_flags;
#elif defined(__aarch64__)
  uint64_t control = 0;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return control;
#else
  return static_cast<uint64_t>(std::fegetround());
#endif
}

uint64_t mask_bits() {
  sigset_t set;
  sigemptyset(&set);
  pthread_sigmask(SIG_SETMASK, nullptr, &set);
  uint64_t bits = 0;
  for (int s = 1; s <= kSignals; ++s) {
    if (sigismember(&set, s) == 1) bits |= uint64_t{1} << (s - 1);
  }
  return bits;
}

uint64_t handler_of(int signal) {
  struct sigaction action {};
  if (sigaction(signal, nullptr, &action) != 0) return 0;
  return reinterpret_cast<uint64_t>(action.sa_sigaction);
}

std::string changed(const std::string& what, const std::string& before, const std::string& after) {
  return what + " was \"" + before + "\" and is \"" + after + "\"";
}

uint64_t n_entries(const char* folder) {
  const std::filesystem::directory_iterator entries(folder);
  return static_cast<uint64_t>(std::distance(begin(entries), end(entries)));
}

}  // namespace

ProcessState ProcessState::now() {
  ProcessState state;
  state.float_mode = conformance::float_mode();
  for (int s = 1; s <= kSignals; ++s) state.signal_handlers[static_cast<size_t>(s)] = handler_of(s);
  state.signal_mask = mask_bits();
  state.locale = std::setlocale(LC_ALL, nullptr);
  state.working_directory = std::filesystem::current_path().string();
  for (char** entry = environ; *entry != nullptr; ++entry) state.environment.emplace_back(*entry);
  return state;
}

std::string difference(const ProcessState& before, const ProcessState& after) {
  if (before.float_mode != after.float_mode) {
    return changed("the floating-point mode of the calling thread",
                   std::to_string(before.float_mode), std::to_string(after.float_mode));
  }
  for (size_t s = 1; s < before.signal_handlers.size(); ++s) {
    if (before.signal_handlers[s] == after.signal_handlers[s]) continue;
    const char* name = sigabbrev_np(static_cast<int>(s));
    return "the handler of SIG" + std::string(name == nullptr ? std::to_string(s) : name) +
           " was changed";
  }
  if (before.signal_mask != after.signal_mask) {
    return "the calling thread's signal mask was changed";
  }
  if (before.locale != after.locale) return changed("the locale", before.locale, after.locale);
  if (before.working_directory != after.working_directory) {
    return changed("the working directory", before.working_directory, after.working_directory);
  }
  if (before.environment != after.environment) return "the environment's variables were changed";
  return {};
}

std::map<std::string, uint64_t> thread_signal_masks() {
  std::map<std::string, uint64_t> masks;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(thread.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with("SigBlk:")) continue;
      masks[thread.path().filename().string()] = std::stoull(line.substr(7), nullptr, 16);
    }
  }
  return masks;
}

ProcessCounts ProcessCounts::now() {
  return {n_entries("/proc/self/task"), n_entries("/proc/self/fd")};
}

ProcessCounts ProcessCounts::settled(uint64_t n_threads) {
  ProcessCounts counts = now();
  for (int tries = 0; tries < 1000 && counts.n_threads > n_threads; ++tries) {
    usleep(1000);
    counts = now();
  }
  return counts;
}

}  // namespace bp::conformance
