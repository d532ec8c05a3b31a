#pragma once
// BP_UNROLL before a loop of constant length: its arrays of vectors become registers. BP_UNROLL_TWO
// before a loop that leaves them where they are, since gcc moves some at the end of each turn.
#if defined(__clang__)
#define BP_UNROLL _Pragma("clang loop unroll(full)")
#define BP_UNROLL_TWO _Pragma("clang loop unroll_count(2)")
#define BP_NO_UNROLL _Pragma("clang loop unroll(disable)")
#else
#define BP_UNROLL _Pragma("GCC unroll 16")
#define BP_UNROLL_TWO _Pragma("GCC unroll 2")
#define BP_NO_UNROLL _Pragma("GCC unroll 1")
#endif
