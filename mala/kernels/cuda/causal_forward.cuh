// The causal forward: a block sweeps over the tokens of a part. Keys go into the sums tile by tile,
// and each tile's queries see the sums before it and the keys within it, up to their own.
#pragma once

#include "mala/kernels/cuda/causal_keys.cuh"

namespace mala::gpu {

// out of this lane's two queries of a tile.
template <typename T, int kDim, class Kind>
struct CausalRows {
  const Call<T>& call;
  const Task& task;
  KeyTiles<kDim> keys;
  KeyState<kDim> state;
  SweepMatrix<kDim> matrix;
  RawRows<T, kDim> q;
  Rows<const T> local, gate;
  Rows<T> out;

  __device__ __forceinline__ void ask_for(int64_t first) const {
    q.ask_for(first, task.end);
    commit_copies();
  }

  __device__ __forceinline__ void run(int64_t first, int key_eights, bool broken) const {
    const SweepLane lane;
    int64_t tokens[2];
    bool exists[2];
    Spot spots[2];
    Magnitude magnitudes[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      tokens[half] = first + lane.row() + 8 * half;
      exists[half] = tokens[half] < task.end;
      spots[half] = spot_at<Kind>(call.q_turning, task.sequence.earlier + tokens[half],
                                  task.sequence.q_width, exists[half]);
    }
    const int end = min(2 * lane.row_warp + 2, key_eights);  // no later tokens
    Scores<T> scores;
    SweepRows<T> rows;
#pragma unroll 1
    for (int block = 0; block * kBlockCols < static_cast<int>(call.layout.dim); ++block) {
      const int column = block * kBlockCols + 8 * lane.t;
      Eight turned[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = lane.row() + 8 * half;
        turned[half] = meet_prefixes(q.eight(row, tokens[half], exists[half], column), column, row,
                                     spots[half], magnitudes[half]);
      }
      const LeftBlock<T> left(turned[0], turned[1], false);
      scores.add(left, keys.rotated, block, 0, end);
      rows.add(left, matrix, block);
    }
    write(tokens, exists, scores, rows, magnitudes, end, broken);
  }

 private:
  __device__ __forceinline__ Eight meet_prefixes(const Eight& raw, int column, int row,
                                                 const Spot& spot, Magnitude& magnitude) const {
    const Turns<Kind::kHow, 8> by(call.q_turning, spot, column);
    const Eight phi = features<T>(Kind::feature(call), raw);
    magnitude.s = dot(phi, keys.prefixes.eight(row, column), magnitude.s);
    const Eight turned = rotated<false>(phi, call.q_turning, by);
    magnitude.r = dot(turned, eight_of(state.rotated_keys, column), magnitude.r);
    return column < call.layout.dim ? turned : Eight{};
  }

  __device__ __forceinline__ Eight broken_from(Eight y, int row, int column) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (row >= keys.broken[column + i]) y.x[i] = NAN;
    }
    return y;
  }

  __device__ __forceinline__ void write(const int64_t (&tokens)[2], const bool (&exists)[2],
                                        Scores<T>& scores, SweepRows<T>& rows,
                                        const Magnitude (&magnitudes)[2], int end,
                                        bool broken) const {
    const SweepLane lane;
    float product[2], mean[2], base[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = lane.row() + 8 * half;
      const float in_tile = mask_scores(scores, row, half, end);
      const CausalWeights weights =
          causal_weights(call, task, tokens[half], row_sum(magnitudes[half].s),
                         row_sum(magnitudes[half].r + in_tile));
      product[half] = weights.product;
      mean[half] = weights.mean;
      base[half] = weights.base;
      weigh_scores(scores, row, half, end, weights.product, weights.mean);
    }
    rows.scale(product);
    rows.add(scores, keys.values, 0, end);
#pragma unroll
    for (int block = 0; block < 2; ++block) {
      const int column = lane.column(block);
      if (column >= out.cols) continue;
      const Eight centre = eight_of(state.centre, column), sums = eight_of(state.values, column);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (!exists[half]) continue;
        Eight y = rows.eight(half, block);
        add_scaled(y, mean[half], sums);
        add_scaled(y, base[half], centre);
        if (broken) y = broken_from(y, lane.row() + 8 * half, column);
        if (local.data) add_scaled(y, 1.0f, read_eight(row_of(local, tokens[half], true), column));
        if (gate.data) y = times(y, read_eight(row_of(gate, tokens[half], true), column));
        write_eight(row_of(out, tokens[half], true), column, y);
      }
    }
  }
};

// Grid (heads of queries, parts).
template <typename T, int kDim, class Kind>
__global__ void __launch_bounds__(SweepShape<kDim>::kThreads, kSweepBlocks<kDim>)
    causal_forward_kernel(const __grid_constant__ Call<T> call) {
  extern __shared__ __align__(128) std::byte shared[];
  const SweepMemory<T, kDim> memory{shared};
  wait_for_previous();
  let_next_begin();
  const Task task = query_task(call);
  if (task.first == task.end) return;
  CausalKeySums<T, kDim, Kind> sums(call, task, memory);
  const CausalRows<T, kDim, Kind> rows{
      call,
      task,
      sums.tiles,
      sums.state,
      sweep_matrix(memory, prefix_of(call, task), call.layout),
      memory.raw(2, query_rows<Kind>(call.inputs.q, task, call.vectors.q), call.layout.dim),
      query_rows<Kind>(call.inputs.local, task, call.vectors.local),
      query_rows<Kind>(call.inputs.gate, task, call.vectors.gate),
      query_rows<Kind>(call.out, task, call.vectors.out)};
  rows.ask_for(task.first);
  for (int64_t first = task.first; first < task.end; first += kTileTokens) {
    const bool broken = sums.begin_tile(first);
    rows.run(first, sums.keys.eights(first), broken);
    sums.end_tile(first, broken);
    if (first + kTileTokens < task.end) rows.ask_for(first + kTileTokens);
  }
}

}  // namespace mala::gpu
