// The second pass of the forward: queries through the state.
#pragma once

#include "mala/kernels/cuda/prepare.cuh"
#include "mala/kernels/cuda/weights.cuh"

namespace mala::gpu {

template <typename T, int kDim>
struct ApplyMemory {
  using S = Shape<kDim>;
  static constexpr int kRightBytes = kSharedRight<T, kDim> ? Right<T, kDim>::kBytes : 0;
  static constexpr int kFixedBytes = kRightBytes + QueryVectors<kDim>::kBytes;
  static constexpr int kStageBytes = S::kTokens * kDim * sizeof(T);
  static constexpr int kStages = stages(kFixedBytes, kStageBytes);
  static constexpr int kBytes = kFixedBytes + kStages * kStageBytes;

  std::byte* memory;

  __device__ QueryVectors<kDim> vectors() const { return QueryVectors<kDim>(memory + kRightBytes); }
  __device__ Tile<T, kDim> queries() const { return {reinterpret_cast<T*>(memory + kFixedBytes)}; }
  static __device__ int stage(int tile) { return tile % kStages * kStageBytes; }
};

// out of this lane's queries of a tile.
template <typename T, int kDim, bool kTurns>
struct ApplyQueries {
  static constexpr int kBlocks = kDim / kBlockCols, kUnrolled = kUnrolledBlocks<T, kDim>;

  const Call<T>& call;
  QueryVectors<kDim> head;
  Right<T, kDim> right;
  float c;
  Rows<const T> local, gate;
  Rows<T> out;

  __device__ __forceinline__ void run(const LaneTile<T, kDim>& queries,
                                      const LaneTokens& tokens) const {
    const int lane = threadIdx.x % 32, t = lane % 4;
    Magnitude magnitudes[2];
    Left<T> left[kBlocks];
    Spot spots[2];
#pragma unroll
    for (int half = 0; half < 2 && kTurns; ++half) {
      spots[half] = tokens.walks[half].spot(call.q_turning, tokens.exists(half));
    }
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const int column = block * kBlockCols + 8 * t;
      Eight phi[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        phi[half] = meet_keys<kTurns>(call, head, spots[half], column, queries.eight(half, block),
                                      magnitudes[half]);
      }
      left[block] = Left<T>(phi[0], phi[1]);
    }
    const RowWeights weights[2] = {weights_of<kTurns>(call, c, magnitudes[0]),
                                   weights_of<kTurns>(call, c, magnitudes[1])};
    const OutRow rows[2] = {out_row(tokens, 0), out_row(tokens, 1)};
#pragma unroll(kUnrolled)
    for (int block = 0; block < kBlocks; ++block) {
      Product product;
#pragma unroll
      for (int k = 0; k < kBlocks; ++k) {
#pragma unroll
        for (int j = 0; j < 4; ++j) right.multiply(product.c[j], left[k], k, 4 * block + j, lane);
      }
      const int column = block * kBlockCols + 8 * t;
      finish(rows[0], column, product.upper(), weights[0]);
      finish(rows[1], column, product.lower(), weights[1]);
    }
  }

 private:
  struct OutRow {
    Row<const T> local, gate;
    Row<T> out;
  };
  __device__ __forceinline__ OutRow out_row(const LaneTokens& tokens, int half) const {
    const int64_t token = tokens.token(half);
    const bool exists = tokens.exists(half);
    return {row_of(local, token, exists), row_of(gate, token, exists), row_of(out, token, exists)};
  }

  __device__ __forceinline__ void finish(const OutRow& row, int column, const Eight& product,
                                         const RowWeights& weights) const {
    if (!row.out.data || column >= row.out.cols) return;
    Eight y = scaled(product, weights.product);
    add_scaled(y, weights.mean, eight_of(head.value_mean, column));
    if (row.local.data) add_scaled(y, 1.0f, read_eight(row.local, column));
    if (row.gate.data) {
      const Eight by = read_eight(row.gate, column);
#pragma unroll
      for (int i = 0; i < 8; ++i) y.x[i] *= by.x[i];
    }
    write_eight(row.out, column, y);
  }
};

// Grid (heads of queries, parts).
template <typename T, int kDim, bool kTurns>
__global__ void __launch_bounds__(Shape<kDim>::kThreads, kLeastBlocks<T, kDim>.forward)
    apply_queries_kernel(const __grid_constant__ Call<T> call) {
  using S = Shape<kDim>;
  using Memory = ApplyMemory<T, kDim>;
  extern __shared__ __align__(128) std::byte shared[];
  const Memory memory{shared};
  wait_for_previous();
  let_next_begin();
  const Task task = query_task(call);
  if (task.first == task.end) return;
  const Rows<const T> q = query_rows(call.inputs.q, task, call.vectors.q);
  const int tiles = static_cast<int>(divide_up(task.end - task.first, S::kTokens));
  Stager<T> stager(q, task.first, task.end, S::kTokens);
  const LaneTile<T, kDim> queries(memory.queries());
  auto stage_tile = [&](int tile) {
    stager.stage(queries.moved(Memory::stage(tile)));
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
  const ApplyQueries<T, kDim, kTurns> apply{call,
                                            head,
                                            right,
                                            scales.c,
                                            query_rows(call.inputs.local, task, call.vectors.local),
                                            query_rows(call.inputs.gate, task, call.vectors.gate),
                                            query_rows(call.out, task, call.vectors.out)};
  LaneTokens tokens(call.q_turning, task, task.sequence.q_width, S::kTokens);
  for (int tile = 0; tile < tiles; ++tile) {
    wait_copies<0>();  // lanes read what they copied themselves
    if (Memory::kStages == 2 && tile + 1 < tiles) stage_tile(tile + 1);
    apply.run(queries.moved(Memory::stage(tile)), tokens);
    tokens.advance(S::kTokens);
    if (Memory::kStages == 1 && tile + 1 < tiles) stage_tile(tile + 1);
  }
}

}  // namespace mala::gpu
