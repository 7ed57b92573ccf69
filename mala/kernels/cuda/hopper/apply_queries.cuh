// The second pass of the forward on Hopper: queries through the state. Usual calls in bfloat16
// alone.
#pragma once

#include "mala/kernels/cuda/hopper/matrix.cuh"
#include "mala/kernels/cuda/weights.cuh"

namespace mala::gpu::hopper {

// S_c and the vectors.
template <int kDim>
struct ApplyMemory {
  static constexpr int kBytes = Matrix<kDim>::kBytes + QueryVectors<kDim>::kBytes;
  std::byte* memory;

  __device__ __forceinline__ Matrix<kDim> right() const { return {shared_address(memory)}; }
  __device__ __forceinline__ QueryVectors<kDim> vectors() const {
    return QueryVectors<kDim>(memory + Matrix<kDim>::kBytes);
  }
};

// Grid (heads of queries, parts).
template <int kDim, class Kind>
__global__ void __launch_bounds__(kRowThreads, kDim <= 64 ? 4 : 2)
    apply_queries_kernel(const __grid_constant__ Call<BFloat16> call) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr int kBlocks = kDim / kBlockCols;
  extern __shared__ __align__(128) std::byte shared[];
  const ApplyMemory<kDim> memory{aligned(shared)};
  if (call.table) wait_for_previous();
  const Task task = query_task(call);
  if (task.first == task.end) return;
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const int tiles = static_cast<int>(divide_up(task.end - task.first, kRowTokens));
  LaneRows<kDim> queries(query_rows<Kind>(call.inputs.q, task, true), task, row);
  queries.ask();
  wait_for_previous();
  let_next_begin();

  const HeadScales scales = head_scales(call, task.sequence.k_count);
  const float* state = call.state + task.unit * call.layout.size();
  const QueryVectors<kDim> head = memory.vectors();
  fill_vectors(call, state, scales, head);
  fill_centred(memory.right(), state, head);
  show_to_tensor_cores();
  __syncthreads();

  const uint64_t right = memory.right().panels();
  const Rows<const BFloat16> local = query_rows<Kind>(call.inputs.local, task, true);
  const Rows<const BFloat16> gate = query_rows<Kind>(call.inputs.gate, task, true);
  const Rows<BFloat16> out = query_rows<Kind>(call.out, task, true);
  LaneTokens<Kind, 1> tokens(call.q_turning, task, task.sequence.q_width, row, kRowTokens);
  for (int tile = 0; tile < tiles; ++tile) {
    const Spot spots[2] = {tokens.spot(0), tokens.spot(1)};
    Magnitude magnitudes[2];
    LeftParts<kDim> parts;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const int column = block * kBlockCols + 8 * t;
      const MeanKeys<8> keys(head, column);
      Eight turned[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        turned[half] = meet_keys<Kind>(call, keys, spots[half], column, queries.eight(half, block),
                                       magnitudes[half])
                           .turned;
      }
      parts.set(block, turned[0], turned[1]);
    }
    if (tile + 1 < tiles) queries.ask();
    HeadAccumulator<kDim> product;
    begin_products();
    multiply(product, parts, right);
    commit_products();
    const RowWeights weights[2] = {weights_of<Kind>(call, scales.c, magnitudes[0]),
                                   weights_of<Kind>(call, scales.c, magnitudes[1])};
    wait_products();
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const int column = block * kBlockCols + 8 * t;
      const Eight mean = gpu::eight_of(head.value_mean, column);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (!tokens.exists(half)) continue;
        Eight y = scaled(eight_of(product, half, block), weights[half].product);
        add_scaled(y, weights[half].mean, mean);
        const int64_t token = tokens.token(half);
        if (Kind::kTail && local.data) {
          add_scaled(y, 1.0f, load_eight(local.at(token, column)));
        }
        if (Kind::kTail && gate.data) y = times(y, load_eight(gate.at(token, column)));
        store_eight(out.at(token, column), y);
      }
    }
    tokens.advance(call.q_turning, kRowTokens);
  }
#else
  __trap();  // never launched there
#endif
}

}  // namespace mala::gpu::hopper
