#include "core/model/map_guard.hpp"

#include <csignal>
#include <cstdint>
#include <cstring>

#include <array>
#include <atomic>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "backplane/file_descriptor.hpp"

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

// A line for the error output, written at once: what other threads write stays out of it.
class Line {
 public:
  Line& operator<<(std::string_view text) {
    n_ += text.copy(text_ + n_, sizeof text_ - n_);
    return *this;
  }
  void write() const {
    for (size_t done = 0; done < n_;) {
      const ssize_t n = ::write(STDERR_FILENO, text_ + done, n_ - done);
      if (n <= 0) return;
      done += static_cast<size_t>(n);
    }
  }

 private:
  char text_[4096 + 256];  // room for a path
  size_t n_ = 0;
};

// Looks in the text of /proc/self/maps, which comes in pieces, for the file that is mapped at an
// address. A line: BEGIN-END PERMISSIONS OFFSET DEVICE INODE   PATH.
class MappedPath {
 public:
  explicit MappedPath(uintptr_t address) : address_(address) {}

  // Whether it is found with this character.
  bool take(char c) {
    if (c == '\n') {
      if (address_ >= numbers_[0] && address_ < numbers_[1] && n_ > 0) return true;
      field_ = n_ = numbers_[0] = numbers_[1] = 0;
    } else if (field_ < 2) {
      if (c == '-' || c == ' ') {
        ++field_;
      } else {
        numbers_[field_] =
            numbers_[field_] << 4 | static_cast<uintptr_t>(c <= '9' ? c - '0' : c - 'a' + 10);
      }
    } else if (field_ < kPath) {
      field_ += c == ' ' ? 1 : 0;
    } else if (n_ + 1 < sizeof path_ && (n_ > 0 || c != ' ')) {
      path_[n_++] = c;
      path_[n_] = '\0';
    }
    return false;
  }
  [[nodiscard]] const char* path() const { return path_; }

 private:
  static constexpr size_t kPath = 6;  // behind two numbers and four other fields

  const uintptr_t address_;
  size_t field_ = 0;
  uintptr_t numbers_[2] = {};
  size_t n_ = 0;
  char path_[4096] = {};
};

bool find_mapped(MappedPath& file) {
  const FileDescriptor maps{::open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
  char piece[1024];
  for (ssize_t n; maps.fd >= 0 && (n = ::read(maps.fd, piece, sizeof piece)) > 0;) {
    for (ssize_t i = 0; i < n; ++i) {
      if (file.take(piece[i])) return true;
    }
  }
  return false;
}

bool is_prepared(const char* path) {
  const std::string_view folder =
      std::string_view(path).substr(0, std::string_view(path).rfind('/'));
  return folder.ends_with(kPreparedFolderEnd);
}

constexpr std::string_view kCutShort = " was truncated or replaced while in use";

[[noreturn]] void tell_of_guarded(const Slot& slot) {
  (Line() << "model file " << slot.path << kCutShort << "\n").write();
  ::_exit(1);
}

// Of a file that a plugin has mapped itself.
void tell_of_mapped(uintptr_t address) {
  MappedPath file(address);
  const bool is_found = find_mapped(file);
  if (is_found && is_prepared(file.path())) {
    (Line() << "file of prepared weights " << file.path() << kCutShort
            << "; delete it, it is made again\n")
        .write();
    ::_exit(1);
  }
  (Line() << (is_found ? "file " : "a file") << (is_found ? file.path() : "")
          << ", which a plugin has mapped," << kCutShort << "\n")
      .write();
}

// Several threads may meet the same missing pages: one tells at a time, and where that ends the
// process the others say nothing.
void tell(uintptr_t address, int code) {
  static std::atomic_flag is_told = ATOMIC_FLAG_INIT;
  while (is_told.test_and_set(std::memory_order_acquire)) ::poll(nullptr, 0, 1);
  if (const Slot* slot = find_slot_of(address)) tell_of_guarded(*slot);
  if (code == BUS_ADRERR) tell_of_mapped(address);
  is_told.clear(std::memory_order_release);
}

// Async-signal-safe: reads atomics, static memory and /proc, calls open, read, close, poll, write,
// sigaction and _exit only.
void on_bus_error(int signal, siginfo_t* info, void* context) {
  tell(reinterpret_cast<uintptr_t>(info->si_addr), info->si_code);
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
