#pragma once
// BP_UNROLL before a loop of constant length: its arrays of vectors become registers. BP_NO_UNROLL
// before one that reads memory from end to end: processors foretell better what few instructions
// read again and again. (Measured.)
#if defined(__clang__)
#define BP_UNROLL _Pragma("clang loop unroll(full)")
#define BP_NO_UNROLL _Pragma("clang loop unroll(disable)")
#else
#define BP_UNROLL _Pragma("GCC unroll 16")
#define BP_NO_UNROLL _Pragma("GCC unroll 1")
#endif
