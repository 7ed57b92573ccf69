// The tail in the backward: what local term and gate make of the gradient of out.
#pragma once

#include "mala/kernels/cuda/prepare.cuh"
#include "mala/kernels/cuda/weights.cuh"

namespace mala::gpu {

template <typename T, int kDim, class Kind>
struct QueryTail {
  static constexpr int kBlocks = kDim / kBlockCols;

  QueryVectors<kDim> head;
  Right<T, kDim> right;  // S_c, in global memory
  bool writes;
  int value_dim;
  Rows<const T> local, gate;
  Rows<T> d_local, d_gate;

  // Turns the gradient of out into that of the attention before the tail, in its tile, and writes
  // those of local and gate.
  __device__ __forceinline__ void pass(const RowWeights (&weights)[2],
                                       const LaneTokens<Kind, 1>& tokens,
                                       const LaneTile<float, kDim, 1>& turned,
                                       const LaneTile<T, kDim, 1>& gradients) const {
    if (!local.data && !gate.data) return;
    Product<kDim, 1> product;
#pragma unroll 1
    for (int block = 0; block < kBlocks && gate.data; ++block) {
      const LeftBlock<T> left[1] = {{turned.eight(0, block), turned.eight(1, block), false}};
      product.add(left, right, block);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        const int column = block * kBlockCols + threadIdx.x % 4 * 8;
        if (!tokens.exists(half) || column >= value_dim) continue;
        pass_eight(tokens.token(half), half, block, product.eight(half, block), weights[half],
                   gradients);
      }
    }
  }

 private:
  __device__ __forceinline__ void pass_eight(int64_t token, int half, int block,
                                             const Eight& product, const RowWeights& weights,
                                             const LaneTile<T, kDim, 1>& gradients) const {
    const int column = block * kBlockCols + threadIdx.x % 4 * 8;
    Eight g = gradients.eight(half, block);
    if (gate.data) {
      Eight y = scaled(product, weights.product);
      add_scaled(y, weights.mean, eight_of(head.value_mean, column));
      if (local.data) add_scaled(y, 1.0f, read_eight(row_of(local, token, true), column));
      write_eight(row_of(d_gate, token, writes), column, times(y, g));
      g = times(g, read_eight(row_of(gate, token, true), column));
      gradients.set_eight(half, block, g);
    }
    write_eight(row_of(d_local, token, writes), column, g);
  }
};

template <typename T, int kDim, class Kind>
__device__ __forceinline__ QueryTail<T, kDim, Kind> query_tail(const Call<T>& call,
                                                               const Task& task,
                                                               const QueryVectors<kDim>& head,
                                                               bool writes) {
  return {head,
          Right<T, kDim>(global_right<T, kDim>(call, task.unit, 0)),
          writes,
          static_cast<int>(call.layout.value_dim),
          query_rows<Kind>(call.inputs.local, task, call.vectors.local),
          query_rows<Kind>(call.inputs.gate, task, call.vectors.gate),
          query_rows<Kind>(call.gradients.local, task, call.vectors.d_local),
          query_rows<Kind>(call.gradients.gate, task, call.vectors.d_gate)};
}

}  // namespace mala::gpu
