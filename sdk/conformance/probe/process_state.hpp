#pragma once
// What a plugin must leave as it found it.

#include <array>
#include <csignal>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace bp::conformance {

struct ProcessState {
  uint64_t float_mode = 0;  // rounding, flush to zero and traps of this thread
  std::array<uint64_t, 65> signal_handlers{};
  uint64_t signal_mask = 0;  // of this thread
  std::string locale, working_directory;
  std::vector<std::string> environment;

  [[nodiscard]] static ProcessState now();
};

// "" or the first difference: "the locale was \"C\" and is \"de_DE\"".
[[nodiscard]] std::string difference(const ProcessState& before, const ProcessState& after);

// The threads of the process by their ids, each with its mask of blocked signals.
[[nodiscard]] std::map<std::string, uint64_t> thread_signal_masks();

// Threads and open files of the process.
struct ProcessCounts {
  uint64_t n_threads = 0, n_files = 0;

  [[nodiscard]] static ProcessCounts now();
  // After threads have been joined: the kernel may show them for some time still, so this waits
  // until there are no more than n_threads, but at most a second.
  [[nodiscard]] static ProcessCounts settled(uint64_t n_threads);
};

}  // namespace bp::conformance
