// The pass of the backward over keys: writes the gradients of keys and values.
#pragma once

#include "mala/kernels/cuda/feature.cuh"
#include "mala/kernels/cuda/prepare.cuh"

namespace mala::gpu {

// dS and its transpose, vectors, stages of keys and values.
template <typename T, int kDim>
struct KeyGradientMemory {
  using S = RowShape<T, kDim, 2>;
  static constexpr int kRightBytes = kSharedRight<T, kDim> ? Right<T, kDim>::kBytes : 0;
  static constexpr int kFixedBytes = 2 * kRightBytes + KeyVectors<kDim>::kBytes;
  static constexpr int kTileBytes = S::kTokens * kDim * sizeof(T);
  using Staged = Stages<kFixedBytes, 2 * kTileBytes>;

  std::byte* memory;

  __device__ KeyVectors<kDim> vectors() const { return KeyVectors<kDim>(memory + 2 * kRightBytes); }
  __device__ Tile<T, kDim> keys() const { return {reinterpret_cast<T*>(memory + kFixedBytes)}; }
  __device__ Tile<T, kDim> values() const { return {keys().data + S::kTokens * kDim}; }
};

// This lane's keys and values of a tile.
template <typename T, int kDim, class Kind>
struct KeyGradients {
  static constexpr int kRowTiles = RowShape<T, kDim, 2>::kRowTiles, kPieces = 2 * kRowTiles;
  static constexpr int kBlocks = kDim / kBlockCols;
  using Lanes = LaneTile<T, kDim, kRowTiles>;
  using Tokens = LaneTokens<Kind, kRowTiles>;

  const Call<T>& call;
  KeyVectors<kDim> head;
  Right<T, kDim> right, transposed;  // dS (D, E), and (E, D)
  Rows<T> d_key, d_value;

  __device__ __forceinline__ void run(const Lanes& keys, const Lanes& values,
                                      const Tokens& tokens) const {
    Spot spots[kPieces];
#pragma unroll
    for (int p = 0; p < kPieces && Kind::kTurns; ++p) spots[p] = tokens.spot(p);
    write_values(keys, tokens, spots);
    write_keys(keys, values, tokens, spots);
  }

 private:
  static __device__ __forceinline__ int column(int block) {
    return block * kBlockCols + threadIdx.x % 4 * 8;
  }
  __device__ __forceinline__ Eight phi(const Lanes& keys, int piece, int block) const {
    return features<T>(Kind::feature(call), keys.eight(piece, block));
  }

  // Features less their mean, and values less theirs: what they have in common is added in float32.
  __device__ __forceinline__ void write_values(const Lanes& keys, const Tokens& tokens,
                                               const Spot (&spots)[kPieces]) const {
    Product<kDim, kRowTiles> product;
#pragma unroll 1
    for (int block = 0; block < kBlocks; ++block) {
      const Eight mean = eight_of(head.mean_key, column(block));
      LeftBlock<T> left[kRowTiles];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        Eight turned[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const Turns<Kind::kHow, 8> turns(call.k_turning, spots[2 * m + half], column(block));
          turned[half] = rotated<false>(phi(keys, 2 * m + half, block), call.k_turning, turns);
          add_scaled(turned[half], -1.0f, mean);
        }
        left[m] = LeftBlock<T>(turned[0], turned[1], false);
      }
      product.add(left, right, block);
    }
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const Eight base = eight_of(head.value_base, column(block));
#pragma unroll
      for (int p = 0; p < kPieces; ++p) {
        Eight y = product.eight(p, block);
        add_scaled(y, 1.0f, base);
        write_eight(row_of(d_value, tokens.token(p), tokens.exists(p)), column(block), y);
      }
    }
  }

  __device__ __forceinline__ void write_keys(const Lanes& keys, const Lanes& values,
                                             const Tokens& tokens,
                                             const Spot (&spots)[kPieces]) const {
    Product<kDim, kRowTiles> product;
#pragma unroll 1
    for (int block = 0; block < kBlocks; ++block) {
      const Eight mean = eight_of(head.value_mean, column(block));
      LeftBlock<T> left[kRowTiles];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        Eight v[2] = {values.eight(2 * m, block), values.eight(2 * m + 1, block)};
        add_scaled(v[0], -1.0f, mean);
        add_scaled(v[1], -1.0f, mean);
        left[m] = LeftBlock<T>(v[0], v[1], false);
      }
      product.add(left, transposed, block);
    }
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      Turns<Kind::kHow, 8> turns[kPieces];  // asked for early
#pragma unroll
      for (int p = 0; p < kPieces; ++p) {
        turns[p] = Turns<Kind::kHow, 8>(call.k_turning, spots[p], column(block));
      }
#pragma unroll
      for (int p = 0; p < kPieces; ++p) {
        const Eight y = key_gradient(product.eight(p, block), turns[p], block);
        write_eight(row_of(d_key, tokens.token(p), tokens.exists(p)), column(block),
                    times_slope(Kind::feature(call), phi(keys, p, block), y));
      }
    }
  }

  __device__ __forceinline__ Eight key_gradient(Eight y, const Turns<Kind::kHow, 8>& turns,
                                                int block) const {
    add_scaled(y, 1.0f, eight_of(head.d_rotated_key, column(block)));
    y = rotated<true>(y, call.k_turning, turns);
    add_scaled(y, 1.0f, eight_of(head.d_key, column(block)));
    return y;
  }
};

template <typename T, int kDim, class Kind>
__device__ __forceinline__ void key_gradients_of_block(const Call<T>& call) {
  using S = RowShape<T, kDim, 2>;
  using Memory = KeyGradientMemory<T, kDim>;
  extern __shared__ __align__(128) std::byte shared[];
  const Memory memory{shared};
  wait_for_previous();
  let_next_begin();
  const Task task = key_task(call);
  if (task.first == task.end) return;
  const Rows<const T> k = key_rows<Kind>(call.inputs.k, task, call.vectors.k);
  const Rows<const T> v = key_rows<Kind>(call.inputs.v, task, call.vectors.v);
  const int tiles = static_cast<int>(divide_up(task.end - task.first, S::kTokens));
  const LaneTile<T, kDim, S::kRowTiles> lane_keys(memory.keys()), lane_values(memory.values());
  Stager<T, S::kTokens> keys(k, task.first, task.end, lane_keys.row());
  Stager<T, S::kTokens> values(v, task.first, task.end, lane_keys.row());
  auto stage_tile = [&](int tile) {
    keys.stage(lane_keys.moved(Memory::Staged::offset(tile)));
    values.stage(lane_values.moved(Memory::Staged::offset(tile)));
    commit_copies();
  };
  stage_tile(0);

  const float* sums = call.gradient + task.unit * call.layout.size();
  const bool in_shared = kSharedRight<T, kDim>;
  const Right<T, kDim> right(in_shared ? shared : global_right<T, kDim>(call, task.unit, 0));
  const Right<T, kDim> transposed(in_shared ? shared + Memory::kRightBytes
                                            : global_right<T, kDim>(call, task.unit, 1));
  fill_vectors(call, call.state + task.unit * call.layout.size(), sums,
               head_scales(call, task.sequence.k_count), memory.vectors());
  if constexpr (kSharedRight<T, kDim>) fill_state_gradient(call, sums, right, transposed);
  __syncthreads();
  const KeyGradients<T, kDim, Kind> pass{
      call,
      memory.vectors(),
      right,
      transposed,
      key_rows<Kind>(call.gradients.k, task, call.vectors.d_key),
      key_rows<Kind>(call.gradients.v, task, call.vectors.d_value)};
  LaneTokens<Kind, S::kRowTiles> tokens(call.k_turning, task, task.sequence.k_width,
                                        lane_keys.row(), S::kTokens);
  for (int tile = 0; tile < tiles; ++tile) {
    wait_copies<0>();  // lanes read what they copied themselves
    if (Memory::Staged::are_two() && tile + 1 < tiles) stage_tile(tile + 1);
    const int stage = Memory::Staged::offset(tile);
    pass.run(lane_keys.moved(stage), lane_values.moved(stage), tokens);
    tokens.advance(call.k_turning, S::kTokens);
    if (!Memory::Staged::are_two() && tile + 1 < tiles) stage_tile(tile + 1);
  }
}

// Grid (heads of keys, parts).
template <typename T, int kDim, class Kind>
__global__ void __launch_bounds__(RowShape<T, kDim, 2>::kThreads,
                                  kLeastBlocks<T, kDim>.key_gradients)
    key_gradients_kernel(const __grid_constant__ Call<T> call) {
  if constexpr (kLeftToHopper<Kind>) {
    __trap();  // never launched there
  } else {
    key_gradients_of_block<T, kDim, Kind>(call);
  }
}

}  // namespace mala::gpu
