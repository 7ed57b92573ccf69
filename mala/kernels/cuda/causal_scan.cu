// Between the sweeps of the causal form: sums of parts become sums before and after them. All in
// double, and always in the same order.
#include "mala/kernels/cuda/feature.cuh"
#include "mala/kernels/cuda/launch.cuh"
#include "mala/kernels/cuda/launch_causal.h"

namespace mala::gpu {
namespace {

constexpr int kScanThreads = 128;
constexpr int kAtOnce = 8;  // parts whose sums are on their way at a time

// Elements of a state from one on.
struct Elements {
  int64_t first, end;
};

// A unit, the element of its sums that a thread has, and where its parts begin.
struct Element {
  Sequence sequence;
  int64_t unit, head, i;
};
template <typename T>
__device__ __forceinline__ Element element_of(const Call<T>& call, int64_t first) {
  const unsigned heads = static_cast<unsigned>(call.kv_heads);
  return {call.sequence(blockIdx.x / heads), static_cast<int64_t>(blockIdx.x),
          static_cast<int64_t>(blockIdx.x % heads),
          first + int64_t{blockIdx.y} * kScanThreads + threadIdx.x};
}
// Of the sums before or after parts.
template <typename T>
__device__ __forceinline__ int64_t first_slot(const Call<T>& call, const Element& at) {
  return at.sequence.q_parts_before * call.kv_heads + at.head * at.sequence.q_parts;
}

// 1 / x, of a count, to the last digits: a division would take most of what a scan does.
__device__ __forceinline__ double inverse_of(int64_t count) {
  const auto x = static_cast<double>(count);
  double y = nearly_inverse(static_cast<float>(count));
#pragma unroll
  for (int step = 0; step < 2; ++step) y = fma(y, fma(-x, y, 1.0), y);
  return y;
}

// Grid (units, elements of a state): the sums before each part, about the mean value before it.
// Keys were summed in as many parts, or in several for each.
template <typename T>
__global__ void __launch_bounds__(kScanThreads)
    scan_keys_kernel(const __grid_constant__ Call<T> call, Elements some) {
  wait_for_previous();
  let_next_begin();
  const Element at = element_of(call, some.first);
  const StateLayout& layout = call.layout;
  const int64_t size = layout.size(), i = at.i;
  if (i >= some.end) return;
  const Sequence& sequence = at.sequence;
  if (call.counts_after && i == 0 && at.head == 0) {
    call.counts_after[at.unit / call.kv_heads] = sequence.earlier + sequence.k_count;
  }
  const bool is_product = i < layout.keys(), is_value = i >= layout.values();
  // Of a product, its key and its value go along with it.
  const int64_t key = is_product ? layout.rotated_keys() + i / layout.value_dim : i;
  const int64_t value = is_product ? layout.values() + i % layout.value_dim : i;
  const double* before = call.state_before ? call.state_before + at.unit * size : nullptr;
  double own = before ? before[i] : 0.0, of_key = before ? before[key] : 0.0;
  double of_value = before ? before[value] : 0.0;
  const int64_t summed = call.parts ? sequence.k_parts : 0;
  const float* from =
      call.parts + (sequence.k_parts_before * call.kv_heads + at.head * sequence.k_parts) * size;
  float* to = call.prefixes + first_slot(call, at) * size + i;
  int64_t seen = sequence.earlier, left = sequence.k_count;
  const int64_t of_each = call.q_part_tokens / call.k_part_tokens;
  const int64_t all = sequence.q_parts * of_each;
  int64_t until_next = 0;  // part of the queries
  for (int64_t first = 0; first < all; first += kAtOnce) {
    float sums[kAtOnce], keys[kAtOnce], values[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const bool exists = first + k < summed;
      const float* part = from + (first + k) * size;
      sums[k] = exists ? part[i] : 0.0f;
      keys[k] = exists && is_product ? part[key] : 0.0f;
      values[k] = exists && is_product ? part[value] : sums[k];
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (first + k >= all) continue;
      if (until_next == 0) {
        // Not about the mean as it is rounded: where gain * r is large, that would show.
        const double mean = seen > 0 ? of_value * inverse_of(seen) : 0.0;
        const double x = is_product ? own - of_key * mean : is_value ? mean : own;
        *to = static_cast<float>(x);
        to += size;
        until_next = of_each;
      }
      --until_next;
      own += static_cast<double>(sums[k]);
      of_key += static_cast<double>(keys[k]);
      of_value += static_cast<double>(values[k]);
      seen += min(left, call.k_part_tokens);
      left -= min(left, call.k_part_tokens);
    }
  }
  if (call.state_after) call.state_after[at.unit * size + i] = own;
}

// Grid (units, elements of a state): the gradients of the sums after each part.
template <typename T>
__global__ void __launch_bounds__(kScanThreads)
    scan_queries_kernel(const __grid_constant__ Call<T> call) {
  wait_for_previous();
  let_next_begin();
  const Element at = element_of(call, 0);
  const Sequence& sequence = at.sequence;
  const int64_t size = call.layout.size(), parts = sequence.q_parts;
  if (at.i >= size) return;
  double sum = call.state_gradient_after ? call.state_gradient_after[at.unit * size + at.i] : 0.0;
  const int64_t first_head = sequence.q_parts_before * call.heads + at.head * call.group * parts;
  const float* from = call.parts + first_head * size + at.i;
  float* to = call.suffixes + first_slot(call, at) * size + at.i;
  for (int64_t last = parts - 1; last >= 0; last -= kAtOnce) {
    double added[kAtOnce] = {};
    for (int64_t member = 0; call.parts && member < call.group; ++member) {
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        if (last - k >= 0)
          added[k] += static_cast<double>(from[(member * parts + last - k) * size]);
      }
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (last - k >= 0) to[(last - k) * size] = static_cast<float>(sum);
      sum += added[k];
    }
  }
  if (call.state_gradient_before) call.state_gradient_before[at.unit * size + at.i] = sum;
}

template <typename T>
LaunchSize scan_size(const Call<T>& call, int64_t elements) {
  return {dim3(static_cast<unsigned>(call.sequences * call.kv_heads),
               static_cast<unsigned>(divide_up(elements, kScanThreads))),
          kScanThreads, 0};
}

template <typename T>
void scan_some_keys(Launcher& on, const Call<T>& call, const Elements& some) {
  launch<scan_keys_kernel<T>>(on, scan_size(call, some.end - some.first), call, some);
}

}  // namespace

// Products of the state before are taken about its means, which must not have become those after:
// where both are the same memory, products go first.
template <typename T>
void launch_scan_keys(Launcher& on, const Call<T>& call) {
  const int64_t products = call.layout.keys(), all = call.layout.size();
  if (!call.state_after || call.state_after != call.state_before) {
    return scan_some_keys(on, call, {0, all});
  }
  scan_some_keys(on, call, {0, products});
  scan_some_keys(on, call, {products, all});
}

template <typename T>
void launch_scan_queries(Launcher& on, const Call<T>& call) {
  launch<scan_queries_kernel<T>>(on, scan_size(call, call.layout.size()), call);
}

#define MALA_INSTANTIATE(T)                                  \
  template void launch_scan_keys(Launcher&, const Call<T>&); \
  template void launch_scan_queries(Launcher&, const Call<T>&)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala::gpu
