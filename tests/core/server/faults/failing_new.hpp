#pragma once
// operator new of the whole program, made to fail once.

#include <cstdint>

namespace bp::testing {

// The n-th allocation from now (0: the next) of at least 256 bytes by a thread that is not exempt
// throws bad_alloc.
void fail_allocation(int64_t n);
// Whether an allocation has failed since fail_allocation; none will from now on.
bool stop_failing();
void exempt_this_thread();

}  // namespace bp::testing
