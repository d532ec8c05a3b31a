#include "backends/cuda/emulator/fiber.hpp"

#include <cstring>

#if defined(BP_FIBERS_UNDER_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace bp::cuda::emulator {

namespace {

constexpr uint8_t kUntouched = 0xa5;
constexpr size_t kGuardBytes = 256;  // at the end that the stack grows towards

}  // namespace

#if defined(__x86_64__)

// ucontext enters the kernel at every switch; a kernel with 256 threads switches thousands of
// times.
extern "C" void bp_cuda_switch_stack(void** save, void* load);
asm(R"(
.text
.type bp_cuda_switch_stack, @function
.hidden bp_cuda_switch_stack
bp_cuda_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size bp_cuda_switch_stack, .-bp_cuda_switch_stack
.type bp_cuda_fiber_start, @function
.hidden bp_cuda_fiber_start
bp_cuda_fiber_start:
  movq %r12, %rdi
  call *%r13
  ud2
.size bp_cuda_fiber_start, .-bp_cuda_fiber_start
)");
extern "C" void bp_cuda_fiber_start();

namespace {

void* make_context(uint8_t* stack, size_t n_bytes, void (*run)(Fiber*), Fiber* fiber) {
  auto** top = reinterpret_cast<void**>(stack + n_bytes) - 2;  // calls want a multiple of 16
  *--top = reinterpret_cast<void*>(bp_cuda_fiber_start);
  *--top = nullptr;                       // rbp
  *--top = nullptr;                       // rbx
  *--top = fiber;                         // r12
  *--top = reinterpret_cast<void*>(run);  // r13
  *--top = nullptr;                       // r14
  *--top = nullptr;                       // r15
  return top;
}
void change_context(void*& from, void* to) {
  bp_cuda_switch_stack(&from, to);
}
void free_contexts(void*, void*) {}

}  // namespace

#else

namespace {

void start(uint32_t run_high, uint32_t run_low, uint32_t high, uint32_t low) {
  const auto run = reinterpret_cast<void (*)(Fiber*)>(uintptr_t{run_high} << 32 | run_low);
  run(reinterpret_cast<Fiber*>(uintptr_t{high} << 32 | low));
}

void* make_context(uint8_t* stack, size_t n_bytes, void (*run)(Fiber*), Fiber* fiber) {
  auto* context = new ucontext_t{};
  getcontext(context);
  context->uc_stack.ss_sp = stack;
  context->uc_stack.ss_size = n_bytes;
  const auto r = reinterpret_cast<uintptr_t>(run), f = reinterpret_cast<uintptr_t>(fiber);
  makecontext(context, reinterpret_cast<void (*)()>(start), 4, static_cast<uint32_t>(r >> 32),
              static_cast<uint32_t>(r), static_cast<uint32_t>(f >> 32), static_cast<uint32_t>(f));
  return context;
}
void change_context(void*& from, void* to) {
  if (from == nullptr) from = new ucontext_t{};
  swapcontext(static_cast<ucontext_t*>(from), static_cast<ucontext_t*>(to));
}
void free_contexts(void* own, void* other) {
  delete static_cast<ucontext_t*>(own);
  delete static_cast<ucontext_t*>(other);
}

}  // namespace

#endif

namespace {

// AddressSanitizer must know of every change of stacks.
struct StackChange {
#if defined(BP_FIBERS_UNDER_ASAN)
  void* fake = nullptr;
  static inline thread_local const void* host_stack = nullptr;
  static inline thread_local size_t host_bytes = 0;
  void into(const void* stack) {
    __sanitizer_start_switch_fiber(&fake, stack, kStackBytes);
  }
  // The frames that the last run of a fiber ended in have not returned.
  static void forget(const uint8_t* stack, size_t n_bytes) {
    constexpr size_t kFrames = 4096;
    __asan_unpoison_memory_region(stack + n_bytes - kFrames, kFrames);
  }
  void back_out() {
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
  }
  static void arrived(void* fake_of_fiber) {
    __sanitizer_finish_switch_fiber(fake_of_fiber, &host_stack, &host_bytes);
  }
  void out(bool ends) {
    __sanitizer_start_switch_fiber(ends ? nullptr : &fake, host_stack, host_bytes);
  }
#else
  void into(const void*) {}
  static void forget(const uint8_t*, size_t) {}
  void back_out() {}
  static void arrived(void*) {}
  void out(bool) {}
  static constexpr void* fake = nullptr;
#endif
};

}  // namespace

Fiber::Fiber(uint32_t index)
    : stack_(new uint8_t[kStackBytes]), n_bytes_(kStackBytes - index % 32 * 448) {
  std::memset(stack_.get(), kUntouched, kGuardBytes);
}

Fiber::~Fiber() {
  free_contexts(own_, other_);
}

void Fiber::prepare(void (*entry)(void*), void* argument) {
  entry_ = entry;
  argument_ = argument;
  is_done_ = false;
  free_contexts(own_, nullptr);
  StackChange::forget(stack_.get(), n_bytes_);
  own_ = make_context(stack_.get(), n_bytes_, run, this);
}

void Fiber::resume() {
  StackChange change;
  change.into(stack_.get());
  change_context(other_, own_);
  change.back_out();
}

void Fiber::suspend() {
  StackChange change;
  change.out(is_done_);
  change_context(own_, other_);
  StackChange::arrived(change.fake);
}

void Fiber::run(Fiber* fiber) {
  StackChange::arrived(nullptr);
  fiber->entry_(fiber->argument_);
  fiber->is_done_ = true;
  fiber->suspend();
}

bool Fiber::has_overflowed() const {
  for (size_t i = 0; i < kGuardBytes; ++i) {
    if (stack_[i] != kUntouched) return true;
  }
  return false;
}

}  // namespace bp::cuda::emulator
