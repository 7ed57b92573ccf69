// The caller's state of one head and the sums of a sweep: the same numbers, but that the sweep's
// rows are padded and its values lie about a centre m,
//
//   S' = S - Z^R (x) m,  U' = U - t m,   and so for gradients  dZ^R' = dZ^R + dS m.
#pragma once

#include <cstdint>

#include "mala/kernels/cpu/layout.h"

namespace mala::cpu {

// The same sums, of `count` keys, about another centre.
template <typename T>
void move_centre(const T* from, const T* to, int64_t count, const StateLayout& layout,
                 double* sums);

// sums = the state before a call; zeros where there is none. `centre` may be absent.
template <typename T>
void start_sums(const double* state, int64_t count, const T* centre, const StateLayout& layout,
                double* sums);

// state = the sums, which hold `count` keys, in the caller's form. Uses the sums as working memory.
template <typename T>
void write_sums(double* sums, int64_t count, const T* centre, const StateLayout& layout,
                double* state);

// The same for the gradients of sums, there and back.
template <typename T>
void start_gradients(const double* state_gradient, const T* centre, const StateLayout& layout,
                     double* gradients);
template <typename T>
void write_gradients(const double* gradients, const T* centre, const StateLayout& layout,
                     double* state_gradient);

}  // namespace mala::cpu
