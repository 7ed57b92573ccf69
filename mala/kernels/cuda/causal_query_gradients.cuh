// The first sweep of the causal backward: dq of each token, and the weights with which it enters
// the gradients of the sums.
//
// Where nothing turns, keys and rotated keys are one, and may have large weights that cancel: these
// are added before they meet keys, which products round.
#pragma once

#include "mala/kernels/cuda/causal_keys.cuh"

namespace mala::gpu {

// g * gate, which is also the gradient of `local`.
template <typename T, int kDim>
struct TailGradient {
  RawRows<T, kDim> out_gradient;
  Rows<const T> gate;

  __device__ __forceinline__ Eight read(int row, int64_t token, bool exists, int column) const {
    Eight g = out_gradient.eight(row, token, exists, column);
    if (!gate.data || !exists || column >= gate.cols) return g;
    return times(g, read_eight(row_of(gate, token, true), column));
  }
};

// This lane's two queries of a tile.
template <typename T, int kDim, class Kind>
struct CausalQueryRows {
  static constexpr int kColumnWarps = SweepShape<kDim>::kColumnWarps;

  const Call<T>& call;
  const Task& task;
  KeyTiles<kDim> keys;
  KeyState<kDim> state;
  SweepMatrix<kDim> matrix;
  float* exchange;  // a number of each row and column warp
  RawRows<T, kDim> q;
  TailGradient<T, kDim> gradient;
  Rows<T> d_query, d_local;
  SweepWeights* weights;  // of the sequence's first token

  struct Row {
    int64_t token;
    bool exists;
    int row;
    Spot spot;
  };

  // s and r of a query as the keys see it; g . U and g . the part's centre; R phi(q) . S g.
  struct Dots {
    Magnitude magnitude;
    float by_values = 0.0f, by_centre = 0.0f, by_product = 0.0f;
  };

  __device__ __forceinline__ void ask_for(int64_t first) const {
    q.ask_for(first, task.end);
    gradient.out_gradient.ask_for(first, task.end);
    commit_copies();
  }

  __device__ __forceinline__ void run(int64_t first, int key_eights) const {
    const SweepLane lane;
    Row rows[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = lane.row() + 8 * half;
      const int64_t token = first + row;
      rows[half] = {token, token < task.end, row,
                    spot_at<Kind>(call.q_turning, task.sequence.earlier + token,
                                  task.sequence.q_width, token < task.end)};
    }
    const int end = min(2 * lane.row_warp + 2, key_eights);
    Dots dots[2];
    Scores<T> scores, by_gradient;  // with keys, and of gradients with values
    meet_keys(rows, end, scores, dots);
    SweepRows<T> features;
    meet_values(rows, end, by_gradient, features, dots);
    meet_features(rows, features, dots);
    float product[2], rotated[2], plain[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      weigh(rows[half], half, end, scores, by_gradient, dots[half], product[half], rotated[half],
            plain[half]);
    }
    features.scale(product);
    features.add(by_gradient, keys.rotated, 0, end);
    write(rows, features, rotated, plain);
  }

 private:
  __device__ __forceinline__ bool joins() const { return nothing_turns<Kind>(call); }
  __device__ __forceinline__ Eight phi_of(const Row& row, int column) const {
    return features_of(q.eight(row.row, row.token, row.exists, column));
  }
  __device__ __forceinline__ Eight features_of(const Eight& raw) const {
    return gpu::features<T>(Kind::feature(call), raw);
  }
  __device__ __forceinline__ Eight turned(const Eight& phi, const Row& row, int column) const {
    const Turns<Kind::kHow, 8> by(call.q_turning, row.spot, column);
    return gpu::rotated<false>(phi, call.q_turning, by);
  }

  // What keys before they turn have beyond rotated ones, where nothing turns, or else their sum up
  // to a row.
  __device__ __forceinline__ Eight plain_keys(int row, int column) const {
    return joins() ? eight_of(state.difference, column) : keys.prefixes.eight(row, column);
  }

  __device__ __forceinline__ void meet_keys(const Row (&rows)[2], int end, Scores<T>& scores,
                                            Dots (&dots)[2]) const {
    const SweepLane lane;
#pragma unroll 1
    for (int block = 0; block * kBlockCols < static_cast<int>(call.layout.dim); ++block) {
      const int column = block * kBlockCols + 8 * lane.t;
      Eight x[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Eight phi = phi_of(rows[half], column);
        Magnitude& magnitude = dots[half].magnitude;
        magnitude.s = dot(phi, plain_keys(rows[half].row, column), magnitude.s);
        x[half] = column < call.layout.dim ? turned(phi, rows[half], column) : Eight{};
        magnitude.r = dot(x[half], eight_of(state.rotated_keys, column), magnitude.r);
      }
      scores.add(LeftBlock<T>(x[0], x[1], false), keys.rotated, block, 0, end);
    }
  }

  __device__ __forceinline__ void meet_values(const Row (&rows)[2], int end, Scores<T>& scores,
                                              SweepRows<T>& features, Dots (&dots)[2]) const {
    const SweepLane lane;
#pragma unroll 1
    for (int block = 0; block * kBlockCols < static_cast<int>(call.layout.value_dim); ++block) {
      const int column = block * kBlockCols + 8 * lane.t;
      Eight g[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Row& row = rows[half];
        g[half] = gradient.read(row.row, row.token, row.exists, column);
        if (d_local.data && row.exists && lane.column_warp == 0) {
          write_eight(row_of(d_local, row.token, true), column, g[half]);
        }
        // The product with a gate is rounded before all sums alike, or what values have in common
        // would not cancel.
        g[half] = as_operands<T>(g[half]);
        Dots& sums = dots[half];
        sums.by_values = dot(g[half], eight_of(state.values, column), sums.by_values);
        sums.by_centre = dot(g[half], eight_of(state.part_centre, column), sums.by_centre);
      }
      const LeftBlock<T> left(g[0], g[1], true);
      scores.add(left, keys.values, block, 0, end);
      features.add_transposed(left, matrix, block);
    }
  }

  // What the sums before the tile make of g, with the query itself.
  __device__ __forceinline__ void meet_features(const Row (&rows)[2], const SweepRows<T>& features,
                                                Dots (&dots)[2]) const {
    const SweepLane lane;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = 0.0f;
#pragma unroll
      for (int block = 0; block < 2; ++block) {
        const int column = lane.column(block);
        if (column >= call.layout.dim) continue;
        sum = dot(turned(phi_of(rows[half], column), rows[half], column),
                  features.eight(half, block), sum);
      }
      dots[half].by_product = kColumnWarps == 1 ? sum : of_all_columns(rows[half].row, sum);
    }
  }
  // The four lanes of a row get a quarter each of what all column warps have.
  __device__ __forceinline__ float of_all_columns(int row, float sum) const {
    const SweepLane lane;
    float* at = exchange + row * kColumnWarps;
    sum = row_sum(sum);
    __syncthreads();
    if (lane.t == 0) at[lane.column_warp] = sum;
    __syncthreads();
    float total = 0.0f;
#pragma unroll
    for (int warp = 0; warp < kColumnWarps; ++warp) total += at[warp];
    return lane.t == 0 ? total : 0.0f;
  }

  // Leaves in `by_gradient` what keys of the tile count for the query's gradient.
  __device__ __forceinline__ void weigh(const Row& row, int half, int end, Scores<T>& scores,
                                        Scores<T>& by_gradient, const Dots& dots, float& product,
                                        float& rotated, float& plain) const {
    const float in_tile = mask_scores(scores, row.row, half, end);
    const float values_in_tile = mask_scores(by_gradient, row.row, half, end);
    float products_in_tile = 0.0f;
    for_each_half(0, end, [&](int n) {
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        products_in_tile =
            fmaf(scores.at(n, half, odd), by_gradient.at(n, half, odd), products_in_tile);
      }
    });
    const float r = row_sum(dots.magnitude.r + in_tile), s = row_sum(dots.magnitude.s);
    const CausalWeights w = causal_weights(call, task, row.token, joins() ? s + r : s, r);
    // In the first tile of all, values are taken as they are; not so in the second sweep.
    const bool about_zero = comes_first(task, row.token - row.row);
    const float by_centre = row_sum(dots.by_centre);
    const CausalSlopes slopes =
        causal_slopes(call, w, row_sum(dots.by_product + products_in_tile),
                      row_sum(dots.by_values + values_in_tile), about_zero ? 0.0f : by_centre);
    product = w.product;
    rotated = slopes.rotated;
    plain = slopes.plain;
    weigh_scores(by_gradient, row.row, half, end, product, of_rotated(rotated, plain));
    const SweepLane lane;
    if (row.exists && lane.t == 0 && lane.column_warp == 0) {
      weights[row.token] = {product, plain,
                            about_zero ? fmaf(product, by_centre, rotated) : rotated, w.mean};
    }
  }
  // The weight of rotated keys, from both.
  __device__ __forceinline__ float of_rotated(float rotated, float plain) const {
    return joins() ? rotated + plain : rotated;
  }

  __device__ __forceinline__ void write(const Row (&rows)[2], const SweepRows<T>& features,
                                        const float (&rotated)[2], const float (&plain)[2]) const {
    const SweepLane lane;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Row& row = rows[half];
#pragma unroll
      for (int block = 0; block < 2; ++block) {
        const int column = lane.column(block);
        if (!row.exists || column >= call.layout.dim) continue;
        Eight x = features.eight(half, block);
        add_scaled(x, of_rotated(rotated[half], plain[half]), eight_of(state.rotated_keys, column));
        const Turns<Kind::kHow, 8> by(call.q_turning, row.spot, column);
        x = gpu::rotated<true>(x, call.q_turning, by);
        add_scaled(x, plain[half], plain_keys(row.row, column));
        write_eight(row_of(d_query, row.token, true), column,
                    times_slope(Kind::feature(call), phi_of(row, column), x));
      }
    }
  }
};

// Grid (heads of queries, parts).
template <typename T, int kDim, class Kind>
__global__ void __launch_bounds__(SweepShape<kDim>::kThreads, kSweepBlocks<kDim>)
    causal_query_gradients_kernel(const __grid_constant__ Call<T> call) {
  extern __shared__ __align__(128) std::byte shared[];
  const SweepMemory<T, kDim> memory{shared};
  wait_for_previous();
  let_next_begin();
  const Task task = query_task(call);
  if (task.first == task.end) return;
  CausalKeySums<T, kDim, Kind> sums(call, task, memory);
  const CausalQueryRows<T, kDim, Kind> rows{
      call,
      task,
      sums.tiles,
      sums.state,
      sweep_matrix(memory, prefix_of(call, task), call.layout),
      memory.numbers(0),
      memory.raw(2, query_rows<Kind>(call.inputs.q, task, call.vectors.q), call.layout.dim),
      {memory.raw(3, query_rows<Kind>(call.out_gradient, task, call.vectors.out_gradient),
                  call.layout.value_dim),
       query_rows<Kind>(call.inputs.gate, task, call.vectors.gate)},
      query_rows<Kind>(call.gradients.q, task, call.vectors.d_query),
      query_rows<Kind>(call.gradients.local, task, call.vectors.d_local),
      weights_of(call, task.sequence, task.head)};
  rows.ask_for(task.first);
  for (int64_t first = task.first; first < task.end; first += kTileTokens) {
    const bool broken = sums.begin_tile(first);
    rows.run(first, sums.keys.eights(first));
    sums.end_tile(first, broken);
    if (first + kTileTokens < task.end) rows.ask_for(first + kTileTokens);
  }
}

}  // namespace mala::gpu
