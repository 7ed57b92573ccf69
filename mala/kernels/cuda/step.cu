// One token at a time: each state is read once, brought up to date and written back, in double.
#include <cmath>

#include "mala/kernels/cuda/feature.cuh"
#include "mala/kernels/cuda/launch.cuh"
#include "mala/kernels/cuda/plan.h"
#include "mala/kernels/cuda/step.h"
#include "mala/kernels/rule.h"

namespace mala::gpu {

template <typename T>
StepCall<T>::StepCall(const AttentionInputs<T>& token, const AttentionOptions& options,
                      HeadsView<T> to, const CausalStateAfter& state)
    : inputs(token),
      out(to),
      rule(options.rule),
      norm(norm_of(options, true)),
      feature(options.feature),
      key_mean(options.key_mean),
      scale(options.scale.value_or(1.0 / std::sqrt(static_cast<double>(token.q.dim)))),
      eps(options.eps),
      layout{token.q.dim, token.v.dim},
      sums(state.sums.data()),
      counts(state.counts.data()),
      q_turn{options.q_rope, {}},
      k_turn{options.k_rope, {}} {
  inputs.lengths = {};
  for (StepTurn* turn : {&q_turn, &k_turn}) {
    const bool in_grid = turn->rope.kind == Rope::Kind::kGrid;
    const int pairs = static_cast<int>(layout.dim / (in_grid ? 4 : 2));
    if (in_grid || turn->rope.kind == Rope::Kind::kLine) {
      fill_frequencies(turn->rope.kind, pairs, layout.dim, turn->frequencies);
    }
  }
}

namespace {

constexpr int kStepThreads = 256, kStepWarps = kStepThreads / 32, kMostDim = 256;

struct Phi {
  double plain, turned;
};

// cos and sin of a pair at a position, in float as everywhere.
__device__ __forceinline__ Turn turn_of(const StepTurn& by, int pair, int pairs, int64_t count) {
  const Rope& rope = by.rope;
  if (rope.kind == Rope::Kind::kTable) {
    const int64_t row = min(max(count, int64_t{0}), rope.table_rows - 1);
    const int64_t at = row * rope.table_stride + pair;
    return {rope.cos[at], rope.sin[at]};
  }
  int64_t position = rope.offset + count;
  if (rope.kind == Rope::Kind::kGrid) {
    const bool by_column = pair >= pairs / 2;
    position = by_column ? position % rope.width : position / rope.width;
    if (by_column) pair -= pairs / 2;
  }
  double turns = static_cast<double>(position) * by.frequencies[pair];
  turns -= rint(turns);
  double sin, cos;
  sincospi(2 * turns, &sin, &cos);
  return {static_cast<float>(cos), static_cast<float>(sin)};
}

// Whether the side has turns for the token.
__device__ __forceinline__ bool knows(const StepTurn& by, int64_t count) {
  return by.rope.kind != Rope::Kind::kTable || count < by.rope.table_rows;
}

// Feature i of a token: thread i has it, and its pair's other one is the neighbour's.
template <typename T>
__device__ __forceinline__ Phi phi_of(const StepCall<T>& call, const HeadsView<const T>& view,
                                      int64_t batch, int64_t head, const StepTurn& by, int i,
                                      int64_t count) {
  const int dim = static_cast<int>(call.layout.dim);
  float x = 0.0f;
  if (i < dim) {
    Eight one{};
    one.x[0] = widen(view.head(batch, head).at(0, i));
    x = features<T>(call.feature, one).x[0];
  }
  const float other = __shfl_xor_sync(~0u, x, 1);
  if (by.rope.kind == Rope::Kind::kNone || i >= dim) return {x, x};
  const Turn turn = turn_of(by, i / 2, dim / 2, count);
  const float y = i % 2 == 0 ? x * turn.cos - other * turn.sin : x * turn.cos + other * turn.sin;
  return {x, y};
}

// The sum over the block, in every thread.
__device__ __forceinline__ double block_sum(double x, double* shared) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(~0u, x, distance);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  double sum = 0.0;
  for (int warp = 0; warp < kStepWarps; ++warp) sum += shared[warp];
  return sum;
}

struct StepVectors {
  double key[kMostDim], query[kMostDim], value[kMostDim], product[kStepWarps][kMostDim];
  double sums[kStepWarps];
};

// S += key (x) value where kAdds, and of query . S what this warp's rows give.
template <bool kAdds>
__device__ __forceinline__ void step_rows(const StateLayout& layout, StepVectors& vectors,
                                          double* state) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int dim = static_cast<int>(layout.dim), cols = static_cast<int>(layout.value_dim);
  for (int column = 2 * lane; column < cols; column += 64) {
    const double v0 = vectors.value[column], v1 = vectors.value[column + 1];
    double p0 = 0.0, p1 = 0.0;
#pragma unroll 8
    for (int row = warp; row < dim; row += kStepWarps) {
      auto* at = reinterpret_cast<double2*>(state + row * cols + column);
      double2 s = *at;
      if (kAdds) {
        s.x += vectors.key[row] * v0;
        s.y += vectors.key[row] * v1;
        *at = s;
      }
      p0 += vectors.query[row] * s.x;
      p1 += vectors.query[row] * s.y;
    }
    vectors.product[warp][column] = p0;
    vectors.product[warp][column + 1] = p1;
  }
}

// Adds where kAdds, and gives the sum.
template <bool kAdds>
__device__ __forceinline__ double brought_up(double* at, double x) {
  if (kAdds) *at += x;
  return *at;
}

// One head of queries. The first of a group brings the state up to date for all.
template <bool kAdds, typename T>
__device__ __forceinline__ void step_head(const StepCall<T>& call, int64_t batch, int64_t head,
                                          int64_t count, const Phi& key, double* state,
                                          StepVectors& vectors) {
  const StateLayout& layout = call.layout;
  const int i = threadIdx.x;
  const bool is_key = i < layout.dim, is_value = i < layout.value_dim;
  const Phi query = phi_of(call, call.inputs.q, batch, head, call.q_turn, i, count);
  if (is_key) vectors.query[i] = query.turned;
  double s = 0.0, r = 0.0;
  if (is_key) s = query.plain * brought_up<kAdds>(state + layout.keys() + i, key.plain);
  if (is_key) r = query.turned * brought_up<kAdds>(state + layout.rotated_keys() + i, key.turned);
  s = block_sum(s, vectors.sums);
  r = block_sum(r, vectors.sums);
  step_rows<kAdds>(layout, vectors, state);
  __syncthreads();
  if (is_value) {
    const double sum = brought_up<kAdds>(state + layout.values() + i, vectors.value[i]);
    const double inverse = 1.0 / static_cast<double>(count + 1);
    const double c = call.scale * (call.key_mean ? inverse : 1.0);
    const bool late = call.norm == Norm::kPrinted;
    const RuleTerms<double> terms = rule_terms(call.rule, c * (late ? r : s), call.eps);
    const double shift = call.norm == Norm::kBalanced ? terms.gain * c * r - 1 : terms.shift;
    double product = 0.0;
    for (int warp = 0; warp < kStepWarps; ++warp) product += vectors.product[warp][i];
    double y = c * terms.gain * product - shift * inverse * sum;
    auto element = [&](const HeadsView<const T>& view) {
      return static_cast<double>(widen(view.head(batch, head).at(0, i)));
    };
    if (call.inputs.local.data) y += element(call.inputs.local);
    if (call.inputs.gate.data) y *= element(call.inputs.gate);
    const bool known = count >= 0 && knows(call.q_turn, count) && knows(call.k_turn, count);
    call.out.head(batch, head).at(0, i) = narrow<T>(known ? static_cast<float>(y) : NAN);
  }
  __syncthreads();
}

// Grid (heads of keys of all sequences): other dimensions of a grid are too small for many heads.
template <typename T>
__global__ void __launch_bounds__(kStepThreads)
    step_kernel(const __grid_constant__ StepCall<T> call) {
  __shared__ StepVectors vectors;
  wait_for_previous();
  const unsigned heads = static_cast<unsigned>(call.inputs.k.heads);
  const int64_t batch = blockIdx.x / heads, head = blockIdx.x % heads;
  const int64_t count = call.counts[batch], group = call.inputs.q.heads / heads;
  double* state = call.sums + int64_t{blockIdx.x} * call.layout.size();
  const int i = threadIdx.x;
  const Phi key = phi_of(call, call.inputs.k, batch, head, call.k_turn, i, count);
  if (i < call.layout.dim) vectors.key[i] = key.turned;
  if (i < call.layout.value_dim) {
    vectors.value[i] = static_cast<double>(widen(call.inputs.v.head(batch, head).at(0, i)));
  }
  step_head<true>(call, batch, head * group, count, key, state, vectors);
  for (int64_t member = 1; member < group; ++member) {
    step_head<false>(call, batch, head * group + member, count, key, state, vectors);
  }
}

// When all heads have read them.
__global__ void count_kernel(int64_t* counts, int64_t sequences) {
  wait_for_previous();
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < sequences) ++counts[i];
}

}  // namespace

template <typename T>
void launch_step(Launcher& on, const StepCall<T>& call) {
  const auto sequences = static_cast<unsigned>(call.inputs.q.batch);
  const auto heads = static_cast<unsigned>(call.inputs.k.heads);
  launch<step_kernel<T>>(on, {dim3(sequences * heads), kStepThreads, 0}, call);
  launch<count_kernel>(on, {dim3((sequences + 127) / 128), 128, 0}, call.counts,
                       int64_t{sequences});
}

#define MALA_INSTANTIATE(T)    \
  template struct StepCall<T>; \
  template void launch_step(Launcher&, const StepCall<T>&)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala::gpu
