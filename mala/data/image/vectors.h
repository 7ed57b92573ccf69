// Plain loops, compiled once more for machines with longer vectors.
#pragma once

// Before a function, on x86: the machine picks the version when the program starts. Sanitizers
// cannot watch that choice.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__clang__)
#define MALA_EVERY_VECTOR [[gnu::target_clones("avx2", "default")]]
#else
#define MALA_EVERY_VECTOR
#endif
