#include "sdk/conformance/support/perturbed_team.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include "backplane/plugin.hpp"

namespace bp::conformance {

// The workers of one run_team, which the plugin knows as bp_team.
class PerturbedTeam::Run {
 public:
  Run(uint32_t n, uint64_t seed) : n_(n), seed_(seed) {}

  void work(uint32_t worker, void (*fn)(void*, uint32_t, uint32_t, bp_team*), void* argument) {
    delay();
    fn(argument, worker, n_, reinterpret_cast<bp_team*>(this));
  }
  void barrier() {
    delay();
    {
      std::unique_lock lock(mutex_);
      const uint64_t phase = phase_;
      if (++n_arrived_ == n_) {
        n_arrived_ = 0;
        ++phase_;
        all_arrived_.notify_all();
      } else {
        all_arrived_.wait(lock, [&] { return phase_ != phase; });
      }
    }
    delay();
  }
  uint32_t wait(const uint32_t* word, uint32_t old) {
    uint32_t now;
    while ((now = __atomic_load_n(word, __ATOMIC_ACQUIRE)) == old) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    delay();
    return now;
  }

 private:
  // One in three is late.
  void delay() {
    if (seed_ == 0) return;
    std::minstd_rand random(static_cast<uint32_t>(seed_ + n_delays_.fetch_add(1) * 7919));
    random.discard(4);
    if (random() % 3 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
    }
  }

  const uint32_t n_;
  const uint64_t seed_;
  std::atomic<uint64_t> n_delays_{0};
  std::mutex mutex_;
  std::condition_variable all_arrived_;
  uint32_t n_arrived_ = 0;
  uint64_t phase_ = 0;
};

PerturbedTeam::PerturbedTeam(uint32_t n_threads, uint64_t seed)
    : host_(make_growable<bp_host>()), threads_(make_growable<bp_threads>()), seed_(seed) {
  host_.abi_minor = BP_ABI_MINOR;
  host_.user = this;
  host_.log = [](void*, uint32_t, bp_str) {};
  host_.get_extension = [](void* user, const char* id) -> const void* {
    if (std::string_view(id) != BP_THREADS_ID) return nullptr;
    return &static_cast<PerturbedTeam*>(user)->threads_;
  };
  threads_.n_threads = n_threads;
  threads_.user = this;
  threads_.run_team = [](void* user, uint32_t n, void (*fn)(void*, uint32_t, uint32_t, bp_team*),
                         void* argument) {
    static_cast<PerturbedTeam*>(user)->run(n, fn, argument);
  };
  threads_.barrier = [](bp_team* team) { reinterpret_cast<Run*>(team)->barrier(); };
  threads_.wait = [](bp_team* team, uint32_t, const uint32_t* word, uint32_t old) {
    return reinterpret_cast<Run*>(team)->wait(word, old);
  };
  threads_.wake = [](bp_team*, const uint32_t*, uint32_t) {};  // they look again and again
  threads_.parallel_for = [](void* user, uint64_t n, void (*fn)(void*, uint64_t), void* argument) {
    struct Loop {
      std::atomic<uint64_t> left;
      void (*fn)(void*, uint64_t);
      void* argument;
    } loop{{n}, fn, argument};
    const auto work = [](void* l, uint32_t, uint32_t, bp_team*) {
      auto& own = *static_cast<Loop*>(l);
      uint64_t left = own.left.load();
      while (left > 0) {  // from the last to the first
        if (own.left.compare_exchange_weak(left, left - 1)) own.fn(own.argument, --left);
        left = own.left.load();
      }
    };
    static_cast<PerturbedTeam*>(user)->run(0, work, &loop);
  };
}

uint64_t PerturbedTeam::next_seed() {
  if (seed_ == 0) return 0;
  seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
  return seed_ | 1;
}

void PerturbedTeam::run(uint32_t n, void (*fn)(void*, uint32_t, uint32_t, bp_team*),
                        void* argument) {
  const std::lock_guard one_run(running_);
  const uint32_t n_workers = n == 0 ? threads_.n_threads : std::min(n, threads_.n_threads);
  if (n_workers > 1) ++n_shared_runs_;
  Run run(n_workers, next_seed());
  std::vector<std::thread> others;
  for (uint32_t i = 1; i < n_workers; ++i) {
    others.emplace_back([&run, i, fn, argument] { run.work(i, fn, argument); });
  }
  run.work(0, fn, argument);
  for (std::thread& other : others) other.join();
}

}  // namespace bp::conformance
