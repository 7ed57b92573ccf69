// The halves of a call as the kernels of both devices take them.
#pragma once

#include "mala/kernels/split.h"
#include "mala/ops/kernel_inputs.h"

namespace mala::ops {

template <typename T>
KeysInputs<T> kernel_inputs(const KeysCall& call, const KernelLengths& lengths) {
  return {.k = read_view<T>(call.k), .v = read_view<T>(call.v), .lengths = lengths.view()};
}

template <typename T>
QueriesInputs<T> kernel_inputs(const QueriesCall& call, const KernelLengths& lengths) {
  return {.q = read_view<T>(call.q),
          .local = read_view<T>(call.tail.local),
          .gate = read_view<T>(call.tail.gate),
          .lengths = lengths.view()};
}

// The state of all keys in one piece, and the numbers of keys.
template <typename T>
class WholeState {
 public:
  explicit WholeState(const QueriesCall& call)
      : sums_(call.state.contiguous()), key_counts_(numbers(call.key_lengths)) {}

  TotalState<T> view() const {
    return {
        .sums = read_span<Compute<T>>(sums_), .key_counts = key_counts_, .heads = sums_.size(1)};
  }

 private:
  Tensor sums_;
  std::vector<int64_t> key_counts_;
};

inline int64_t value_dim(const QueriesCall& call) {
  return call.value_dim().guard_int(__FILE__, __LINE__);
}

}  // namespace mala::ops
