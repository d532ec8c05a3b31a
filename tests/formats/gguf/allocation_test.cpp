// The n-th allocation fails, for every n: one clear error, nothing leaked.

#include <atomic>
#include <cstdlib>
#include <new>

#include "backplane/plugin.hpp"
#include "corpus.hpp"
#include "fixture.hpp"

namespace {

// Allocations until the one that fails; negative: none does.
thread_local int64_t allocations_left = -1;
thread_local int64_t n_live = 0;

void* allocate(size_t n_bytes) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  void* memory = std::malloc(n_bytes == 0 ? 1 : n_bytes);
  if (memory == nullptr) throw std::bad_alloc();
  ++n_live;
  return memory;
}

void deallocate(void* memory) {
  if (memory != nullptr) --n_live;
  std::free(memory);
}

}  // namespace

void* operator new(size_t n_bytes) {
  return allocate(n_bytes);
}
void* operator new[](size_t n_bytes) {
  return allocate(n_bytes);
}
void operator delete(void* memory) noexcept {
  deallocate(memory);
}
void operator delete[](void* memory) noexcept {
  deallocate(memory);
}
void operator delete(void* memory, size_t) noexcept {
  deallocate(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  deallocate(memory);
}

namespace bp::gguf {
namespace {

TEST(Allocations, EachMayFail) {
  TemporaryFolder folder;
  for (const Seed& seed : make_seeds()) {
    if (!seed.is_valid || seed.name == "split-part") continue;
    SCOPED_TRACE(seed.name);
    const std::string path = folder.write("m.gguf", seed.bytes);
    bp_error error = {};
    const auto open = [&] {
      return guarded(&error, [&]() -> Status { return Model::open(path).status(); });
    };
    ASSERT_EQ(open(), BP_OK);
    const int64_t n_live_before = n_live;
    int64_t n = 0;
    bp_status status = BP_INTERNAL;
    do {
      allocations_left = n++;
      status = open();
      allocations_left = -1;
      ASSERT_TRUE(status == BP_OK || status == BP_OUT_OF_MEMORY) << error.message;
      ASSERT_EQ(n_live, n_live_before) << "allocation " << n;
    } while (status != BP_OK);
    EXPECT_GT(n, 3);
  }
}

}  // namespace
}  // namespace bp::gguf
