// The second sweep of the causal backward, from the last tile to the first: queries go into the
// gradients of the sums, and each tile's keys see the gradients after it and the queries within it,
// from their own on.
#pragma once

#include "mala/kernels/cuda/causal_query_stage.cuh"

namespace mala::gpu {

// Gradients of the sums over keys, those after a tile; that of rotated keys for values about the
// part's centre, which adds the products' gradient times the centre. What the tile's own queries
// add waits until it is done.
template <int kDim>
struct GradientState {
  float *keys, *rotated_keys, *values, *centre, *next_rotated_keys, *next_values;

  template <typename T>
  __device__ __forceinline__ explicit GradientState(const SweepMemory<T, kDim>& memory)
      : keys(memory.vector(0)),
        rotated_keys(memory.vector(1)),
        values(memory.vector(2)),
        centre(memory.vector(3)),
        next_rotated_keys(memory.vector(4)),
        next_values(memory.vector(5)) {}

  // From what a scan left, or zeros where `from` is null. Where `joins`, keys and rotated keys are
  // one, and have one gradient.
  template <typename T>
  __device__ __forceinline__ void start(const Call<T>& call, const Task& task, const float* from,
                                        bool joins) const {
    const StateLayout& layout = call.layout;
    for (int i = threadIdx.x; i < kDim; i += blockDim.x) {
      const bool is_key = from && i < layout.dim, is_value = from && i < layout.value_dim;
      const float key = is_key ? from[layout.keys() + i] : 0.0f;
      const float rotated_key = is_key ? from[layout.rotated_keys() + i] : 0.0f;
      keys[i] = joins ? 0.0f : key;
      next_rotated_keys[i] = rotated_keys[i] = joins ? rotated_key + key : rotated_key;
      next_values[i] = values[i] = is_value ? from[layout.values() + i] : 0.0f;
      centre[i] = part_centre(call, task, i);
    }
    __syncthreads();
  }
  // What add_dots does, for a matrix that no one holds.
  __device__ __forceinline__ void add_centre(const StateLayout& layout, const float* matrix) const {
    for (int i = threadIdx.x; i < layout.dim; i += blockDim.x) {
      for (int j = 0; j < layout.value_dim; ++j) {
        rotated_keys[i] = fmaf(matrix[i * layout.value_dim + j], centre[j], rotated_keys[i]);
      }
    }
    __syncthreads();
  }
  __device__ __forceinline__ void begin() const {
    for (int i = threadIdx.x; i < kDim; i += blockDim.x) next_rotated_keys[i] = rotated_keys[i];
    __syncthreads();
  }
  __device__ __forceinline__ void take_next() const {
    for (int i = threadIdx.x; i < kDim; i += blockDim.x) {
      rotated_keys[i] = next_rotated_keys[i];
      values[i] = next_values[i];
    }
  }
  __device__ __forceinline__ void add(const QueryTiles<kDim>& tiles) const {
    sum_columns(tiles.rotated, tiles.rotated_key, next_rotated_keys);
    sum_columns(tiles.gradients, tiles.mean, next_values);
  }
};

// scores = weight * scores + base of each token from the row's own on.
template <typename T>
__device__ __forceinline__ void weigh_later(Scores<T>& scores, int row, int half, int first,
                                            const float* weight, const float* base) {
  const SweepLane lane;
  for_each_half(first, kTileEights, [&](int n) {
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      const int token = 8 * n + token_of_column(2 * lane.t + odd);
      float& score = scores.at(n, half, odd);
      score = token >= row ? fmaf(weight[token], score, base[token]) : 0.0f;
    }
  });
}

// dk and dv of this lane's two keys of a tile.
template <typename T, int kDim, class Kind>
struct CausalKeyRows {
  const Call<T>& call;
  const Task& task;
  QueryTiles<kDim> queries;
  GradientState<kDim> state;
  SweepMatrix<kDim> matrix;
  RawRows<T, kDim> k, v;
  Rows<T> d_key, d_value;
  SweepRows<T> by_key = {}, by_value = {};  // of rotated keys, and of values

  __device__ __forceinline__ void ask_for(int64_t first) const {
    k.ask_for(first, end());
    v.ask_for(first, end());
    commit_copies();
  }

  // Of the queries of one head; of the first one, also of those after the tile.
  __device__ __forceinline__ void add_queries(int64_t first_token, bool is_first) {
    const SweepLane lane;
    const int first = 2 * lane.row_warp;  // no earlier tokens
    Scores<T> scores;
#pragma unroll 1
    for (int block = 0; block * kBlockCols < static_cast<int>(call.layout.dim); ++block) {
      const int column = block * kBlockCols + 8 * lane.t;
      const LeftBlock<T> left(turned_key(first_token, 0, column),
                              turned_key(first_token, 1, column), false);
      scores.add(left, queries.rotated, block, first, kTileEights);
      if (is_first) by_value.add(left, matrix, block);
    }
    weigh(scores, first, queries.mean);
    by_value.add(scores, queries.gradients, first, kTileEights);
    scores = {};
#pragma unroll 1
    for (int block = 0; block * kBlockCols < static_cast<int>(call.layout.value_dim); ++block) {
      const int column = block * kBlockCols + 8 * lane.t;
      const LeftBlock<T> left(value(first_token, 0, column), value(first_token, 1, column), false);
      scores.add(left, queries.gradients, block, first, kTileEights);
      if (is_first) by_key.add_transposed(left, matrix, block);
    }
    weigh(scores, first, queries.rotated_key);
    by_key.add(scores, queries.rotated, first, kTileEights);
  }

  __device__ __forceinline__ void write(int64_t first_token) {
    const SweepLane lane;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t token = first_token + lane.row() + 8 * half;
      if (token >= end()) continue;
#pragma unroll
      for (int block = 0; block < 2; ++block) {
        const int column = lane.column(block);
        write_value(token, half, block, column);
        write_key(token, half, block, column);
      }
    }
    by_key = {};
    by_value = {};
  }

 private:
  __device__ __forceinline__ int64_t end() const { return min(task.end, task.sequence.k_count); }

  __device__ __forceinline__ Spot spot(int64_t token) const {
    return spot_at<Kind>(call.k_turning, task.sequence.earlier + token, task.sequence.k_width,
                         token < end());
  }
  __device__ __forceinline__ Eight turned_key(int64_t first, int half, int column) const {
    const SweepLane lane;
    const int row = lane.row() + 8 * half;
    const int64_t token = first + row;
    if (token >= end() || column >= call.layout.dim) return {};
    const Turns<Kind::kHow, 8> by(call.k_turning, spot(token), column);
    return rotated<false>(features<T>(Kind::feature(call), k.eight(row, token, true, column)),
                          call.k_turning, by);
  }
  __device__ __forceinline__ Eight value(int64_t first, int half, int column) const {
    const SweepLane lane;
    const int row = lane.row() + 8 * half;
    const int64_t token = first + row;
    if (token >= end() || column >= call.layout.value_dim) return {};
    Eight x = v.eight(row, token, true, column);
    add_scaled(x, -1.0f, eight_of(state.centre, column));
    return x;
  }
  __device__ __forceinline__ void weigh(Scores<T>& scores, int first, const float* base) const {
    const SweepLane lane;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      weigh_later(scores, lane.row() + 8 * half, half, first, queries.product, base);
    }
  }

  __device__ __forceinline__ void write_value(int64_t token, int half, int block,
                                              int column) const {
    if (column >= call.layout.value_dim) return;
    Eight x = by_value.eight(half, block);
    add_scaled(x, 1.0f, eight_of(state.values, column));
    write_eight(row_of(d_value, token, true), column, x);
  }
  __device__ __forceinline__ void write_key(int64_t token, int half, int block, int column) const {
    if (column >= call.layout.dim) return;
    const SweepLane lane;
    Eight x = by_key.eight(half, block);
    add_scaled(x, 1.0f, eight_of(state.rotated_keys, column));
    const Turns<Kind::kHow, 8> by(call.k_turning, spot(token), column);
    x = rotated<true>(x, call.k_turning, by);
    const int row = lane.row() + 8 * half;
    add_scaled(x, 1.0f, queries.sums.eight(row, column));
    const Eight phi = features<T>(Kind::feature(call), k.eight(row, token, true, column));
    write_eight(row_of(d_key, token, true), column, times_slope(Kind::feature(call), phi, x));
  }
};

// The task of a member of the group that shares the keys of a task.
template <typename T>
__device__ __forceinline__ Task member_task(const Call<T>& call, Task task, int member) {
  task.head = task.head * call.group + member;
  task.end = min((blockIdx.y + 1) * call.q_part_tokens, task.sequence.q_count);
  return task;
}

// Block (head of keys, part), of the tokens of queries.
template <typename T>
__device__ __forceinline__ Task swept_key_task(const Call<T>& call) {
  const unsigned heads = static_cast<unsigned>(call.kv_heads);
  const int64_t index = blockIdx.x / heads, head = blockIdx.x % heads;
  const Sequence sequence = call.sequence(index);
  const int64_t first = min(blockIdx.y * call.q_part_tokens, sequence.q_count);
  return {.sequence = sequence,
          .head = head,
          .kv_head = head,
          .unit = static_cast<int64_t>(blockIdx.x),
          .first = first,
          .end = min(first + call.q_part_tokens, sequence.q_count)};
}

// Grid (heads of keys, parts).
template <typename T, int kDim, class Kind>
__global__ void __launch_bounds__(SweepShape<kDim>::kThreads, kSweepBlocks<kDim>)
    causal_key_gradients_kernel(const __grid_constant__ Call<T> call) {
  constexpr bool kRuns = kRunsInShared<kDim>;
  extern __shared__ __align__(128) std::byte shared[];
  const SweepMemory<T, kDim> memory{shared};
  wait_for_previous();
  let_next_begin();
  const Task task = swept_key_task(call);
  if (task.first == task.end) return;
  const QueryTiles<kDim> tiles(memory);
  const GradientState<kDim> state(memory);
  const float* after = suffix_of(call, task);
  const bool joins = nothing_turns<Kind>(call);
  state.start(call, task, after, joins);
  RunningMatrix<T, kDim, kRuns ? kDim / 64 : 1> matrix;
  if constexpr (kRuns) {
    matrix.load(after, call.layout);
    matrix.store(memory.matrix());
    matrix.add_dots(state.centre, 1.0f, state.rotated_keys);
  } else {
    state.add_centre(call.layout, after);
  }
  state.begin();
  CausalKeyRows<T, kDim, Kind> rows{
      call,
      task,
      tiles,
      state,
      sweep_matrix(memory, after, call.layout),
      memory.raw(2, key_rows<Kind>(call.inputs.k, task, call.vectors.k), call.layout.dim),
      memory.raw(3, key_rows<Kind>(call.inputs.v, task, call.vectors.v), call.layout.value_dim),
      key_rows<Kind>(call.gradients.k, task, call.vectors.d_key),
      key_rows<Kind>(call.gradients.v, task, call.vectors.d_value)};
  const int group = static_cast<int>(call.group);
  const int64_t last = task.first + (task.end - task.first - 1) / kTileTokens * kTileTokens;
  auto stage_of = [&](const Task& queries) {
    return CausalQueryStage<T, kDim, Kind>(call, queries, tiles, memory, joins);
  };
  rows.ask_for(last);
  for (int64_t first = last; first >= task.first; first -= kTileTokens) {
    for (int member = 0; member < group; ++member) {
      const Task queries = member_task(call, task, member);
      const auto stage = stage_of(queries);
      stage.ask_for(first);
      wait_copies<0>();  // lanes read what they asked for themselves
      stage.stage_sums(first, member > 0);
    }
    for (int member = 0; member < group; ++member) {
      const Task queries = member_task(call, task, member);
      const auto stage = stage_of(queries);
      if (group > 1) {
        __syncthreads();
        stage.ask_for(first);
        wait_copies<0>();
      }
      stage.stage(first);
      __syncthreads();
      if (member == 0) sum_rows_up<false>(tiles.sums, state.keys);
      rows.add_queries(first, member == 0);
      if constexpr (kRuns) matrix.add(tiles.rotated, tiles.gradients, tiles.product);
      state.add(tiles);
    }
    __syncthreads();
    rows.write(first);
    __syncthreads();
    if (first > task.first) rows.ask_for(first - kTileTokens);
    if constexpr (kRuns) matrix.store(memory.matrix());
    state.take_next();
    __syncthreads();
  }
}

// Grid (heads of queries, parts): what the queries of a part add to the gradients of the sums.
template <typename T, int kDim, class Kind>
__global__ void __launch_bounds__(SweepShape<kDim>::kThreads, kSweepBlocks<kDim>)
    causal_sum_queries_kernel(const __grid_constant__ Call<T> call) {
  constexpr bool kRuns = kRunsInShared<kDim>;
  extern __shared__ __align__(128) std::byte shared[];
  const SweepMemory<T, kDim> memory{shared};
  wait_for_previous();
  let_next_begin();
  const Task task = query_task(call);
  if (task.first == task.end) return;
  const QueryTiles<kDim> tiles(memory);
  const GradientState<kDim> state(memory);
  state.start(call, task, nullptr, false);
  const CausalQueryStage<T, kDim, Kind> stage(call, task, tiles, memory, false);
  stage.ask_for(task.first);
  float* to = call.parts + task.slot * call.layout.size();
  RunningMatrix<T, kDim, kRuns ? kDim / 64 : 1> matrix;
  for (int64_t first = task.first; first < task.end; first += kTileTokens) {
    wait_copies<0>();
    stage.stage_sums(first, false);
    stage.stage(first);
    if (first + kTileTokens < task.end) stage.ask_for(first + kTileTokens);
    __syncthreads();
    if constexpr (kRuns) {
      matrix.add(tiles.rotated, tiles.gradients, tiles.product);
    } else {  // the part's only tile
#pragma unroll 1
      for (int row_tile = 0; row_tile < kDim / 64; ++row_tile) {
        RunningMatrix<T, kDim, 1> some;
        some.first = row_tile;
        some.add(tiles.rotated, tiles.gradients, tiles.product);
        some.add_dots(state.centre, -1.0f, state.next_rotated_keys);
        some.write(to, call.layout);
      }
    }
    sum_columns(tiles.sums, nullptr, state.keys);
    state.add(tiles);
    __syncthreads();
  }
  if constexpr (kRuns) {
    matrix.add_dots(state.centre, -1.0f, state.next_rotated_keys);
    matrix.write(to, call.layout);
  }
  for (int i = threadIdx.x; i < kDim; i += blockDim.x) {
    if (i < call.layout.dim) {
      to[call.layout.keys() + i] = state.keys[i];
      to[call.layout.rotated_keys() + i] = state.next_rotated_keys[i];
    }
    if (i < call.layout.value_dim) to[call.layout.values() + i] = state.next_values[i];
  }
}

}  // namespace mala::gpu
