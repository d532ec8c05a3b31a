#include "sdk/conformance/probe/allocations.hpp"

#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "sdk/conformance/probe/sanitizer.hpp"

#ifdef BACKPLANE_SANITIZED
extern "C" size_t __sanitizer_get_current_allocated_bytes();  // of the sanitizer's runtime
#endif

namespace bp::conformance {

namespace {

std::atomic<uint64_t> g_calls{0};
[[maybe_unused]] std::atomic<int64_t> g_bytes{0};
std::atomic<int64_t> g_until_failure{0};  // calls; 0: none fails

std::atomic<const Allocators*> g_allocators{nullptr};

[[maybe_unused]] bool must_fail(const void* caller) {
  g_calls.fetch_add(1, std::memory_order_relaxed);
  if (g_until_failure.load(std::memory_order_relaxed) <= 0) return false;
  const Allocators* allocators = g_allocators.load(std::memory_order_acquire);
  if (allocators == nullptr || !allocators->has(caller)) return false;
  return g_until_failure.fetch_sub(1, std::memory_order_relaxed) == 1;
}

}  // namespace

uint64_t n_allocations() {
  return g_calls.load(std::memory_order_relaxed);
}

int64_t allocated_bytes() {
#ifdef BACKPLANE_SANITIZED
  return static_cast<int64_t>(__sanitizer_get_current_allocated_bytes());
#else
  return g_bytes.load(std::memory_order_relaxed);
#endif
}

Allocators::Allocators(const void* code) {
  struct Search {
    std::vector<Segment>& segments;
    uintptr_t code;
  } search{segments_, reinterpret_cast<uintptr_t>(code)};
  const auto add = [](dl_phdr_info* info, size_t, void* user) {
    const auto& own = *static_cast<Search*>(user);
    const std::string_view path(info->dlpi_name);
    const std::string_view name = path.substr(path.rfind('/') + 1);
    bool is_wanted = name.starts_with("libc.so") || name.starts_with("libstdc++.so") ||
                     name.starts_with("libc++.so") || name.starts_with("libc++abi.so");
    std::vector<Segment> found;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
      const uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
      found.push_back({begin, begin + info->dlpi_phdr[i].p_memsz});
      is_wanted |= own.code >= begin && own.code < found.back().end;
    }
    if (is_wanted) own.segments.insert(own.segments.end(), found.begin(), found.end());
    return 0;
  };
  dl_iterate_phdr(add, &search);
}

bool Allocators::has(const void* caller) const {
  const auto address = reinterpret_cast<uintptr_t>(caller);
  for (const Segment& segment : segments_) {
    if (address >= segment.begin && address < segment.end) return true;
  }
  return false;
}

FailingAllocation::FailingAllocation(uint64_t n, const Allocators& allocators) {
  g_allocators.store(&allocators, std::memory_order_release);
  g_until_failure.store(static_cast<int64_t>(n), std::memory_order_relaxed);
}
FailingAllocation::~FailingAllocation() {
  g_until_failure.store(0, std::memory_order_relaxed);
  g_allocators.store(nullptr, std::memory_order_release);
}
bool FailingAllocation::has_failed() const {
  return g_until_failure.load(std::memory_order_relaxed) <= 0;
}

}  // namespace bp::conformance

#ifndef BACKPLANE_SANITIZED

namespace {

using bp::conformance::g_bytes;
using bp::conformance::must_fail;

template <class Allocate>
void* counted(const void* caller, Allocate&& allocate) {
  if (must_fail(caller)) {
    errno = ENOMEM;
    return nullptr;
  }
  void* block = allocate();
  g_bytes.fetch_add(static_cast<int64_t>(malloc_usable_size(block)), std::memory_order_relaxed);
  return block;
}

void* map(const void* caller, void* address, size_t n_bytes, int protection, int flags, int fd,
          off_t offset) {
  const bool takes_memory = (flags & MAP_ANONYMOUS) != 0 && (flags & MAP_FIXED) == 0;
  if (takes_memory && must_fail(caller)) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  const long at = syscall(SYS_mmap, address, n_bytes, protection, flags, fd, offset);
  if (at == -1) return MAP_FAILED;
  if ((flags & MAP_FIXED) == 0) {
    g_bytes.fetch_add(static_cast<int64_t>(n_bytes), std::memory_order_relaxed);
  }
  return reinterpret_cast<void*>(at);
}

}  // namespace

#define BP_INTERPOSED __attribute__((visibility("default")))
#define BP_CALLER __builtin_return_address(0)

extern "C" {

// The C library's own, under the names that it keeps for such use.
void* __libc_malloc(size_t n_bytes);
void* __libc_calloc(size_t n, size_t n_bytes);
void* __libc_realloc(void* block, size_t n_bytes);
void* __libc_memalign(size_t alignment, size_t n_bytes);
void __libc_free(void* block);

BP_INTERPOSED void* malloc(size_t n_bytes) noexcept {
  return counted(BP_CALLER, [&] { return __libc_malloc(n_bytes); });
}
BP_INTERPOSED void* calloc(size_t n, size_t n_bytes) noexcept {
  return counted(BP_CALLER, [&] { return __libc_calloc(n, n_bytes); });
}
BP_INTERPOSED void* realloc(void* block, size_t n_bytes) noexcept {
  const auto before = static_cast<int64_t>(malloc_usable_size(block));
  if (must_fail(BP_CALLER)) {
    errno = ENOMEM;
    return nullptr;
  }
  void* moved = __libc_realloc(block, n_bytes);
  if (moved == nullptr && n_bytes != 0) return nullptr;
  g_bytes.fetch_add(static_cast<int64_t>(malloc_usable_size(moved)) - before,
                    std::memory_order_relaxed);
  return moved;
}
BP_INTERPOSED void* memalign(size_t alignment, size_t n_bytes) noexcept {
  return counted(BP_CALLER, [&] { return __libc_memalign(alignment, n_bytes); });
}
BP_INTERPOSED void* aligned_alloc(size_t alignment, size_t n_bytes) noexcept {
  return counted(BP_CALLER, [&] { return __libc_memalign(alignment, n_bytes); });
}
BP_INTERPOSED int posix_memalign(void** out, size_t alignment, size_t n_bytes) noexcept {
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0) return EINVAL;
  void* block = counted(BP_CALLER, [&] { return __libc_memalign(alignment, n_bytes); });
  if (block == nullptr) return ENOMEM;
  *out = block;
  return 0;
}
BP_INTERPOSED void free(void* block) noexcept {
  if (block == nullptr) return;
  g_bytes.fetch_sub(static_cast<int64_t>(malloc_usable_size(block)), std::memory_order_relaxed);
  __libc_free(block);
}

BP_INTERPOSED void* mmap(void* address, size_t n_bytes, int protection, int flags, int fd,
                         off_t offset) noexcept {
  return map(BP_CALLER, address, n_bytes, protection, flags, fd, offset);
}
BP_INTERPOSED void* mmap64(void* address, size_t n_bytes, int protection, int flags, int fd,
                           off_t offset) noexcept {
  return map(BP_CALLER, address, n_bytes, protection, flags, fd, offset);
}
BP_INTERPOSED int munmap(void* address, size_t n_bytes) noexcept {
  const long status = syscall(SYS_munmap, address, n_bytes);
  if (status == 0) g_bytes.fetch_sub(static_cast<int64_t>(n_bytes), std::memory_order_relaxed);
  return static_cast<int>(status);
}

}  // extern "C"

#endif  // BACKPLANE_SANITIZED
