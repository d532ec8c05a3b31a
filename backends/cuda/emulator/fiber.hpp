#pragma once
// One thread of an emulated block: a stack of its own, switched to and from by hand.

#include <cstddef>
#include <cstdint>
#include <memory>

namespace bp::cuda::emulator {

#if defined(__SANITIZE_ADDRESS__)
#define BP_FIBERS_UNDER_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BP_FIBERS_UNDER_ASAN
#endif
#endif

#if defined(BP_FIBERS_UNDER_ASAN)
inline constexpr size_t kStackBytes = 256 << 10;
#else
inline constexpr size_t kStackBytes = 64 << 10;
#endif

class Fiber {
 public:
  // Stacks of neighbours (by index) begin at different lines of the caches.
  explicit Fiber(uint32_t index);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next resume runs entry(argument) from its beginning.
  void prepare(void (*entry)(void*), void* argument);
  // Runs the fiber until it suspends or its entry returns. Called from outside of fibers.
  void resume();
  // Back to who resumed. Called within the fiber.
  void suspend();

  [[nodiscard]] bool is_done() const { return is_done_; }
  // Whether more stack was used than there is.
  [[nodiscard]] bool has_overflowed() const;

 private:
  static void run(Fiber* fiber);

  std::unique_ptr<uint8_t[]> stack_;
  size_t n_bytes_;         // of the stack that are used
  void* own_ = nullptr;    // where it goes on
  void* other_ = nullptr;  // where who resumed it goes on
  void (*entry_)(void*) = nullptr;
  void* argument_ = nullptr;
  bool is_done_ = true;
};

}  // namespace bp::cuda::emulator
