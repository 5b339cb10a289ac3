// In: the next `for` loop, whose bounds are constants.
// Out: the same loop, unrolled, so that its arrays of one entry a lane become registers.
// Assumes: nothing; elsewhere it is no more than slower.
#pragma once

#if defined(__clang__)
#define GRADWIRE_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define GRADWIRE_UNROLL _Pragma("GCC unroll 32")
#else
#define GRADWIRE_UNROLL
#endif
