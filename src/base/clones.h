// In: a function of plain loops that is not seen outside its source file.
// Out: it and, where the CPU has AVX2, a second compilation of it that is chosen when the program
// is loaded. Everything that it calls and whose body is known becomes part of it.
// Assumes: GCC and glibc on x86-64; elsewhere, under sanitizers, and in the preset `scalar` the
// function is compiled once. Both give the same bits: no sum of floats is reordered, and no
// multiplication is fused with an addition.
#pragma once

#include <climits>  // defines __GLIBC__ where there is one

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__) && \
    !defined(__AVX2__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(GRADWIRE_SCALAR)
#define GRADWIRE_HAS_CLONES 1
#define GRADWIRE_CLONES [[gnu::target_clones("avx2", "default"), gnu::flatten]]
#else
#define GRADWIRE_CLONES
#endif
