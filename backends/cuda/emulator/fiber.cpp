#include "backends/cuda/emulator/fiber.hpp"

#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
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

struct Fiber::Context {
  void* own = nullptr;
  void* other = nullptr;

  void prepare(uint8_t* stack, Fiber* fiber) {
    auto* top = reinterpret_cast<void**>(stack + kStackBytes) - 2;  // stays a multiple of 16
    *--top = reinterpret_cast<void*>(bp_cuda_fiber_start);
    *--top = nullptr;                               // rbp
    *--top = nullptr;                               // rbx
    *--top = fiber;                                 // r12
    *--top = reinterpret_cast<void*>(&Fiber::run);  // r13
    *--top = nullptr;                               // r14
    *--top = nullptr;                               // r15
    own = top;
  }
  void enter() { bp_cuda_switch_stack(&other, own); }
  void leave() { bp_cuda_switch_stack(&own, other); }
};

#else

struct Fiber::Context {
  ucontext_t own{}, other{};

  static void start(uint32_t high, uint32_t low) {
    run(reinterpret_cast<Fiber*>(uintptr_t{high} << 32 | low));
  }
  void prepare(uint8_t* stack, Fiber* fiber) {
    getcontext(&own);
    own.uc_stack.ss_sp = stack;
    own.uc_stack.ss_size = kStackBytes;
    own.uc_link = nullptr;
    const auto address = reinterpret_cast<uintptr_t>(fiber);
    makecontext(&own, reinterpret_cast<void (*)()>(start), 2, static_cast<uint32_t>(address >> 32),
                static_cast<uint32_t>(address));
  }
  void enter() { swapcontext(&other, &own); }
  void leave() { swapcontext(&own, &other); }
};

#endif

namespace {

// AddressSanitizer must know of every change of stacks.
struct StackChange {
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  static inline thread_local const void* host_stack = nullptr;
  static inline thread_local size_t host_bytes = 0;
  void into(const void* stack) {
    __sanitizer_start_switch_fiber(&fake, stack, kStackBytes);
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
  void back_out() {}
  static void arrived(void*) {}
  void out(bool) {}
  static constexpr void* fake = nullptr;
#endif
};

}  // namespace

Fiber::Fiber() : stack_(new uint8_t[kStackBytes]), context_(std::make_unique<Context>()) {
  std::memset(stack_.get(), kUntouched, kGuardBytes);
}

Fiber::~Fiber() = default;

void Fiber::prepare(void (*entry)(void*), void* argument) {
  entry_ = entry;
  argument_ = argument;
  is_done_ = false;
  context_->prepare(stack_.get(), this);
}

void Fiber::resume() {
  StackChange change;
  change.into(stack_.get());
  context_->enter();
  change.back_out();
}

void Fiber::suspend() {
  StackChange change;
  change.out(is_done_);
  context_->leave();
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
