#include "core/model/map_guard.hpp"

#include <csignal>
#include <cstdint>
#include <cstring>

#include <array>
#include <atomic>

#include <unistd.h>

namespace bp::model {

namespace {

struct Slot {
  std::atomic<bool> taken = false;
  std::atomic<uintptr_t> begin = 0;  // 0: not to be looked at
  std::atomic<uintptr_t> end = 0;
  char path[1001] = {};
};

std::array<Slot, 256> slots;
struct sigaction previous;

static_assert(std::atomic<uintptr_t>::is_always_lock_free, "needed in a signal handler");

const Slot* find_slot_of(uintptr_t address) {
  for (const Slot& slot : slots) {
    const uintptr_t begin = slot.begin.load(std::memory_order_acquire);
    if (begin != 0 && address >= begin && address < slot.end.load(std::memory_order_relaxed)) {
      return &slot;
    }
  }
  return nullptr;
}

void write_text(const char* text) {
  size_t left = std::strlen(text);
  while (left > 0) {
    const ssize_t n = ::write(STDERR_FILENO, text, left);
    if (n <= 0) return;
    text += n;
    left -= static_cast<size_t>(n);
  }
}

// Async-signal-safe: reads atomics and static memory, calls write, sigaction and _exit only.
void on_bus_error(int signal, siginfo_t* info, void* context) {
  if (const Slot* slot = find_slot_of(reinterpret_cast<uintptr_t>(info->si_addr))) {
    write_text("model file ");
    write_text(slot->path);
    write_text(" was truncated or replaced while in use\n");
    ::_exit(1);
  }
  if (info->si_code == BUS_ADRERR) {
    write_text("a file that a plugin has mapped was truncated or replaced while in use\n");
  }
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
    return;
  }
  // The faulting access runs again and meets the earlier disposition.
  ::sigaction(signal, &previous, nullptr);
}

}  // namespace

GuardedRange::GuardedRange(const void* data, size_t n_bytes, const std::string& path) {
  if (path.size() >= sizeof(Slot::path)) return;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].taken.exchange(true)) continue;
    std::memcpy(slots[i].path, path.c_str(), path.size() + 1);
    const auto begin = reinterpret_cast<uintptr_t>(data);
    slots[i].end.store(begin + n_bytes, std::memory_order_relaxed);
    slots[i].begin.store(begin, std::memory_order_release);
    slot_ = static_cast<int>(i);
    return;
  }
}

GuardedRange::~GuardedRange() {
  if (slot_ < 0) return;
  Slot& slot = slots[static_cast<size_t>(slot_)];
  slot.begin.store(0, std::memory_order_release);
  slot.taken.store(false, std::memory_order_release);
}

void install_map_guard() {
  static const bool installed = [] {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    return ::sigaction(SIGBUS, &action, &previous) == 0;
  }();
  static_cast<void>(installed);
}

}  // namespace bp::model
