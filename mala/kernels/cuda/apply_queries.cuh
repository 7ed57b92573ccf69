// The second pass of the forward: queries through the state.
#pragma once

#include "mala/kernels/cuda/prepare.cuh"
#include "mala/kernels/cuda/weights.cuh"

namespace mala::gpu {

template <typename T, int kDim>
struct ApplyMemory {
  using S = RowShape<T, kDim, 1>;
  static constexpr int kRightBytes = kSharedRight<T, kDim> ? Right<T, kDim>::kBytes : 0;
  static constexpr int kFixedBytes = kRightBytes + QueryVectors<kDim>::kBytes;
  using Staged = Stages<kFixedBytes, S::kTokens * kDim * sizeof(T)>;

  std::byte* memory;

  __device__ QueryVectors<kDim> vectors() const { return QueryVectors<kDim>(memory + kRightBytes); }
  __device__ Tile<T, kDim> queries() const { return {reinterpret_cast<T*>(memory + kFixedBytes)}; }
};

// out of this lane's queries of a tile.
template <typename T, int kDim, class Kind>
struct ApplyQueries {
  static constexpr int kRowTiles = RowShape<T, kDim, 1>::kRowTiles, kPieces = 2 * kRowTiles;

  const Call<T>& call;
  QueryVectors<kDim> head;
  Right<T, kDim> right;
  float c;
  Rows<const T> local, gate;
  Rows<T> out;

  __device__ __forceinline__ void run(const LaneTile<T, kDim, kRowTiles>& queries,
                                      const LaneTokens<Kind, kRowTiles>& tokens) const {
    Magnitude magnitudes[kPieces];
    Spot spots[kPieces];
#pragma unroll
    for (int p = 0; p < kPieces && Kind::kTurns; ++p) spots[p] = tokens.spot(p);
    Product<kDim, kRowTiles> product;
#pragma unroll 1
    for (int strip = 0; strip < kDim / 16; ++strip) {
      const int block = strip / 2, part = strip % 2;
      const int column = block * kBlockCols + threadIdx.x % 4 * 8 + 4 * part;
      const MeanKeys<4> keys(head, column);
      LeftStrip<T> left[kRowTiles];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        Four turned[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int p = 2 * m + half;
          turned[half] = meet_keys<Kind>(call, call.q_turning, keys, spots[p], column,
                                         queries.four(p, block, part), magnitudes[p])
                             .turned;
        }
        left[m] = LeftStrip<T>(turned[0], turned[1], false);
      }
      product.add(left, right, block, part);
    }
    RowWeights weights[kPieces];
#pragma unroll
    for (int p = 0; p < kPieces; ++p) weights[p] = weights_of<Kind>(call, c, magnitudes[p]);
    write_rows(tokens, product, weights);
  }

 private:
  __device__ __forceinline__ void write_rows(const LaneTokens<Kind, kRowTiles>& tokens,
                                             const Product<kDim, kRowTiles>& product,
                                             const RowWeights (&weights)[kPieces]) const {
#pragma unroll
    for (int block = 0; block < kDim / kBlockCols; ++block) {
      const int column = block * kBlockCols + threadIdx.x % 4 * 8;
      if (column >= out.cols) continue;
      const Eight mean = eight_of(head.value_mean, column);
#pragma unroll
      for (int p = 0; p < kPieces; ++p) {
        if (!tokens.exists(p)) continue;
        Eight y = scaled(product.eight(p, block), weights[p].product);
        add_scaled(y, weights[p].mean, mean);
        write_eight(row_of(out, tokens.token(p), true), column,
                    with_tail(y, tokens.token(p), column));
      }
    }
  }

  __device__ __forceinline__ Eight with_tail(Eight y, int64_t token, int column) const {
    if (!Kind::kTail) return y;
    if (local.data) add_scaled(y, 1.0f, read_eight(row_of(local, token, true), column));
    if (gate.data) y = times(y, read_eight(row_of(gate, token, true), column));
    return y;
  }
};

template <typename T, int kDim, class Kind>
__device__ __forceinline__ void apply_queries_of_block(const Call<T>& call) {
  using S = RowShape<T, kDim, 1>;
  using Memory = ApplyMemory<T, kDim>;
  extern __shared__ __align__(128) std::byte shared[];
  const Memory memory{shared};
  wait_for_previous();
  let_next_begin();
  const Task task = query_task(call);
  if (task.first == task.end) return;
  const Rows<const T> q = query_rows<Kind>(call.inputs.q, task, call.vectors.q);
  const int tiles = static_cast<int>(divide_up(task.end - task.first, S::kTokens));
  const LaneTile<T, kDim, S::kRowTiles> queries(memory.queries());
  Stager<T, S::kTokens> stager(q, task.first, task.end, queries.row());
  auto stage_tile = [&](int tile) {
    stager.stage(queries.moved(Memory::Staged::offset(tile)));
    commit_copies();
  };
  stage_tile(0);

  const HeadScales scales = head_scales(call, task.sequence.k_count);
  const float* state = call.state + task.unit * call.layout.size();
  const QueryVectors<kDim> head = memory.vectors();
  const Right<T, kDim> right(kSharedRight<T, kDim> ? shared
                                                   : global_right<T, kDim>(call, task.unit, 0));
  fill_vectors(call, state, scales, head);
  if constexpr (kSharedRight<T, kDim>) {
    fill_centred(state, call.layout, head, right);
    __syncthreads();
  }
  const ApplyQueries<T, kDim, Kind> apply{
      call,
      head,
      right,
      scales.c,
      query_rows<Kind>(call.inputs.local, task, call.vectors.local),
      query_rows<Kind>(call.inputs.gate, task, call.vectors.gate),
      query_rows<Kind>(call.out, task, call.vectors.out)};
  LaneTokens<Kind, S::kRowTiles> tokens(call.q_turning, task, task.sequence.q_width, queries.row(),
                                        S::kTokens);
  for (int tile = 0; tile < tiles; ++tile) {
    wait_copies<0>();  // lanes read what they copied themselves
    if (Memory::Staged::are_two() && tile + 1 < tiles) stage_tile(tile + 1);
    apply.run(queries.moved(Memory::Staged::offset(tile)), tokens);
    tokens.advance(call.q_turning, S::kTokens);
    if (!Memory::Staged::are_two() && tile + 1 < tiles) stage_tile(tile + 1);
  }
}

// Grid (heads of queries, parts).
template <typename T, int kDim, class Kind>
__global__ void __launch_bounds__(RowShape<T, kDim, 1>::kThreads,
                                  kLeastBlocks<T, kDim>.apply_queries)
    apply_queries_kernel(const __grid_constant__ Call<T> call) {
  if constexpr (kLeftToHopper<Kind>) {
    __trap();  // never launched there
  } else {
    apply_queries_of_block<T, kDim, Kind>(call);
  }
}

}  // namespace mala::gpu
