// Between the caller's state and the sums of a sweep.
#include "mala/kernels/cpu/causal_state.h"

#include <algorithm>

#include "mala/kernels/cpu/heads.h"

namespace mala::cpu {
namespace {

// The same numbers in the two layouts.
void spread(const double* state, const StateLayout& layout, double* sums) {
  std::fill_n(sums, layout.size(), 0.0);
  if (state) read_state(HeadState<const double>(state, layout.dim, layout.value_dim), layout, sums);
}

void gather(const double* sums, const StateLayout& layout, double* state) {
  write_state(sums, layout, HeadState<double>(state, layout.dim, layout.value_dim));
}

}  // namespace

// An absent centre is zero.
template <typename T>
void move_centre(const T* from, const T* to, int64_t count, const StateLayout& layout,
                 double* sums) {
  auto at = [](const T* centre, int64_t j) {
    return centre ? static_cast<double>(centre[j]) : 0.0;
  };
  alignas(64) double shift[kMostPad];
  for (int64_t j = 0; j < layout.value_dim; ++j) shift[j] = at(to, j) - at(from, j);
  for (int64_t i = 0; i < layout.dim; ++i) {
    const double key = sums[layout.rotated_keys() + i];
    double* row = sums + layout.products() + i * layout.value_pad();
    for (int64_t j = 0; j < layout.value_dim; ++j) row[j] -= key * shift[j];
  }
  double* values = sums + layout.values();
  for (int64_t j = 0; j < layout.value_dim; ++j) values[j] -= static_cast<double>(count) * shift[j];
}

template <typename T>
void start_sums(const double* state, int64_t count, const T* centre, const StateLayout& layout,
                double* sums) {
  spread(state, layout, sums);
  if (state && centre) move_centre<T>(nullptr, centre, count, layout, sums);
}

template <typename T>
void write_sums(double* sums, int64_t count, const T* centre, const StateLayout& layout,
                double* state) {
  if (centre) move_centre<T>(centre, nullptr, count, layout, sums);
  gather(sums, layout, state);
}

template <typename T>
void start_gradients(const double* state_gradient, const T* centre, const StateLayout& layout,
                     double* gradients) {
  spread(state_gradient, layout, gradients);
  for (int64_t i = 0; state_gradient && centre && i < layout.dim; ++i) {
    const double* row = gradients + layout.products() + i * layout.value_pad();
    for (int64_t j = 0; j < layout.value_dim; ++j) {
      gradients[layout.rotated_keys() + i] += row[j] * static_cast<double>(centre[j]);
    }
  }
}

template <typename T>
void write_gradients(const double* gradients, const T* centre, const StateLayout& layout,
                     double* state_gradient) {
  gather(gradients, layout, state_gradient);
  const HeadState<double> to(state_gradient, layout.dim, layout.value_dim);
  for (int64_t i = 0; centre && i < layout.dim; ++i) {
    for (int64_t j = 0; j < layout.value_dim; ++j) {
      to.rotated_keys[i] -= to.products[i * layout.value_dim + j] * static_cast<double>(centre[j]);
    }
  }
}

#define MALA_INSTANTIATE(T)                                                                \
  template void move_centre(const T*, const T*, int64_t, const StateLayout&, double*);     \
  template void start_sums(const double*, int64_t, const T*, const StateLayout&, double*); \
  template void write_sums(double*, int64_t, const T*, const StateLayout&, double*);       \
  template void start_gradients(const double*, const T*, const StateLayout&, double*);     \
  template void write_gradients(const double*, const T*, const StateLayout&, double*)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(double);
#undef MALA_INSTANTIATE

}  // namespace mala::cpu
