#include "core/cli/machine_probe.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "core/cli/probe_kernels.hpp"

namespace bp::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kSampleTime = std::chrono::milliseconds(150);
constexpr int kSamples = 5, kFewSamples = 3;     // the best one counts
constexpr uint64_t kSmallestBuffer = 64u << 20;  // where memory is short
constexpr uint64_t kReadBytes = 2u << 20;        // between two looks at the clock
constexpr uint64_t kDotRounds = 1u << 14;        // likewise

// Keeps the kernels' results alive.
std::atomic<uint64_t> consumed{0};

void on_all_threads(uint32_t n_threads, const auto& work) {
  std::vector<std::jthread> others;
  for (uint32_t worker = 1; worker < n_threads; ++worker) {
    others.emplace_back([&work, worker] { work(worker); });
  }
  work(0u);
}

// Units a second of all threads together; unit(worker) does some and returns how many.
double best_rate(uint32_t n_threads, int n_samples, const auto& unit) {
  double best = 0;
  for (int sample = 0; sample < n_samples; ++sample) {
    std::vector<double> rates(n_threads);
    on_all_threads(n_threads, [&](uint32_t worker) {
      const auto start = Clock::now();
      uint64_t done = 0;
      auto now = start;
      for (; now - start < kSampleTime; now = Clock::now()) done += unit(worker);
      rates[worker] =
          static_cast<double>(done) / std::chrono::duration<double>(now - start).count();
    });
    double total = 0;
    for (const double rate : rates) total += rate;
    best = std::max(best, total);
  }
  return best;
}

uint64_t available_bytes() {
  std::ifstream info("/proc/meminfo");
  std::string name, unit;
  uint64_t kib = 0;
  while (info >> name >> kib >> unit) {
    if (name == "MemAvailable:") return kib << 10;
  }
  return 0;
}

struct FreeBytes {
  void operator()(void* bytes) const { std::free(bytes); }
};
using Buffer = std::unique_ptr<std::byte, FreeBytes>;

// Halves `n_bytes` until the system gives them.
Buffer allocate(uint64_t& n_bytes) {
  for (; n_bytes >= kSmallestBuffer; n_bytes /= 2) {
    if (void* bytes = std::aligned_alloc(kProbeAlignment, n_bytes)) {
      return Buffer(static_cast<std::byte*>(bytes));
    }
  }
  return nullptr;
}

double read_bandwidth_gb_s(uint32_t n_threads, int n_samples, ReadKernel read) {
  uint64_t n_bytes = kProbeBytes;
  while (n_bytes > kSmallestBuffer && n_bytes > available_bytes() / 4) n_bytes /= 2;
  const Buffer buffer = allocate(n_bytes);
  if (!buffer) return 0;
  const uint64_t slice = n_bytes / n_threads / kReadBytes * kReadBytes;
  if (slice == 0) return 0;
  const auto slice_of = [&](uint32_t worker) { return buffer.get() + worker * slice; };
  // Untouched pages would all be the one page of zeros.
  on_all_threads(n_threads, [&](uint32_t worker) { std::memset(slice_of(worker), 1, slice); });
  std::vector<uint64_t> offsets(n_threads);
  const double bytes_s = best_rate(n_threads, n_samples, [&](uint32_t worker) {
    uint64_t& offset = offsets[worker];
    consumed.fetch_add(read(slice_of(worker) + offset, kReadBytes), std::memory_order_relaxed);
    offset = offset + kReadBytes == slice ? 0 : offset + kReadBytes;
    return kReadBytes;
  });
  return bytes_s / 1e9;
}

double int8_peak_tops(uint32_t n_threads, const DotKernel& dot) {
  const double operations_s = best_rate(n_threads, kSamples, [&](uint32_t worker) {
    consumed.fetch_add(dot.run(kDotRounds, worker), std::memory_order_relaxed);
    return kDotRounds * dot.operations_a_round;
  });
  return operations_s / 1e12;
}

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace

Machine name_machine(uint32_t n_threads) {
  return {cpu_name(), n_threads};
}

Machine probe_machine(uint32_t n_threads) {
  const ProbeKernels kernels = choose_probe_kernels();
  Machine machine = name_machine(n_threads);
  machine.bandwidth_gb_s = read_bandwidth_gb_s(n_threads, kSamples, kernels.read);
  machine.int8_tops = int8_peak_tops(n_threads, kernels.dot);
  return machine;
}

double probe_bandwidth_gb_s(uint32_t n_threads) {
  return read_bandwidth_gb_s(n_threads, kFewSamples, choose_probe_kernels().read);
}

}  // namespace bp::cli
