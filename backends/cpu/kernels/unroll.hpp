#pragma once
// BP_UNROLL before a loop of constant length: its arrays of vectors become registers.
#if defined(__clang__)
#define BP_UNROLL _Pragma("clang loop unroll(full)")
#else
#define BP_UNROLL _Pragma("GCC unroll 16")
#endif
