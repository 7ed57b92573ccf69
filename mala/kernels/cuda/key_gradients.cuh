// The pass of the backward over keys: writes the gradients of keys and values.
#pragma once

#include "mala/kernels/cuda/feature.cuh"
#include "mala/kernels/cuda/prepare.cuh"

namespace mala::gpu {

// dS and its transpose, vectors, stages of keys and values.
template <typename T, int kDim>
struct KeyGradientMemory {
  using S = Shape<kDim>;
  static constexpr int kRightBytes = kSharedRight<T, kDim> ? Right<T, kDim>::kBytes : 0;
  static constexpr int kFixedBytes = 2 * kRightBytes + KeyVectors<kDim>::kBytes;
  static constexpr int kTileBytes = S::kTokens * kDim * sizeof(T);
  static constexpr int kStages = stages(kFixedBytes, 2 * kTileBytes);
  static constexpr int kBytes = kFixedBytes + kStages * 2 * kTileBytes;

  std::byte* memory;

  __device__ KeyVectors<kDim> vectors() const { return KeyVectors<kDim>(memory + 2 * kRightBytes); }
  __device__ Tile<T, kDim> keys() const { return {reinterpret_cast<T*>(memory + kFixedBytes)}; }
  __device__ Tile<T, kDim> values() const { return {keys().data + S::kTokens * kDim}; }
  static __device__ int stage(int tile) { return tile % kStages * 2 * kTileBytes; }
};

template <typename T, int kDim, bool kTurns>
struct KeyGradients {
  static constexpr int kBlocks = kDim / kBlockCols, kUnrolled = kUnrolledBlocks<T, kDim>;
  // The gradient of a value is a small difference of large terms: bfloat16 keys need two parts.
  static constexpr bool kSplits = std::is_same_v<T, BFloat16>;

  const Call<T>& call;
  KeyVectors<kDim> head;
  Right<T, kDim> right, transposed;  // dS (D, E), and (E, D)
  Rows<T> d_key, d_value;

  static __device__ __forceinline__ int column(int block) {
    return block * kBlockCols + threadIdx.x % 4 * 8;
  }

  __device__ __forceinline__ void run(const LaneTile<T, kDim>& keys,
                                      const LaneTile<T, kDim>& values,
                                      const LaneTokens& tokens) const {
    Spot spots[2];
#pragma unroll
    for (int half = 0; half < 2 && kTurns; ++half) {
      spots[half] = tokens.walks[half].spot(call.k_turning, tokens.exists(half));
    }
    Left<T> left[kBlocks], rest[kSplits ? kBlocks : 1];
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      Eight phi[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        Turns turns;
        if (kTurns && call.k_turning.turns) {
          turns = turns_of_eight(call.k_turning, spots[half], column(block));
        }
        phi[half] = features<T>(call.feature, keys.eight(half, block));
        if (kTurns && call.k_turning.turns) phi[half] = rotated<false>(phi[half], turns);
        add_scaled(phi[half], -1.0f, eight_of(head.mean_key, column(block)));
      }
      left[block] = Left<T>(phi[0], phi[1]);
      if constexpr (kSplits) rest[block] = Left<T>(rest_of(phi[0]), rest_of(phi[1]));
    }
    const Row<T> d_values[2] = {row_of(d_value, tokens.token(0), tokens.exists(0)),
                                row_of(d_value, tokens.token(1), tokens.exists(1))};
#pragma unroll(kUnrolled)
    for (int block = 0; block < kBlocks; ++block) {
      Product product = product_of(right, left, block);
      if constexpr (kSplits) {
#pragma unroll
        for (int i = 0; i < 4 * kBlocks; ++i) {
          right.multiply_rest(product.c[i % 4], rest[i / 4], i / 4, 4 * block + i % 4,
                              threadIdx.x % 32);
        }
      }
      write_value(d_values[0], block, product.upper());
      write_value(d_values[1], block, product.lower());
    }
#pragma unroll
    for (int k = 0; k < kBlocks; ++k) left[k] = left_of(values, k);
    const Row<T> d_keys[2] = {row_of(d_key, tokens.token(0), tokens.exists(0)),
                              row_of(d_key, tokens.token(1), tokens.exists(1))};
#pragma unroll(kUnrolled)
    for (int block = 0; block < kBlocks; ++block) {
      const Product product = product_of(transposed, left, block);
      write_key(d_keys[0], spots[0], block, product.upper(), keys.eight(0, block));
      write_key(d_keys[1], spots[1], block, product.lower(), keys.eight(1, block));
    }
  }

 private:
  __device__ __forceinline__ Product product_of(const Right<T, kDim>& by,
                                                const Left<T> (&left)[kBlocks], int block) const {
    Product product;
#pragma unroll
    for (int k = 0; k < kBlocks; ++k) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        by.multiply(product.c[j], left[k], k, 4 * block + j, threadIdx.x % 32);
      }
    }
    return product;
  }

  __device__ __forceinline__ void write_value(const Row<T>& to, int block, Eight y) const {
    add_scaled(y, 1.0f, eight_of(head.value_base, column(block)));
    write_eight(to, column(block), y);
  }

  __device__ __forceinline__ void write_key(const Row<T>& to, const Spot& spot, int block, Eight y,
                                            const Eight& raw) const {
    const bool late = kTurns && call.rotated_magnitude();
    Turns turns;
    if (kTurns && call.k_turning.turns) {
      turns = turns_of_eight(call.k_turning, spot, column(block));
    }
    const Eight phi = features<T>(call.feature, raw);
    if (call.centred()) add_scaled(y, -1.0f, eight_of(head.centre, column(block)));
    if (late) add_scaled(y, 1.0f, eight_of(head.d_key, column(block)));
    if (kTurns && call.k_turning.turns) y = rotated<true>(y, turns);
    if (!late) add_scaled(y, 1.0f, eight_of(head.d_key, column(block)));
    write_eight(to, column(block), times_slope(call.feature, phi, y));
  }
};

// Grid (heads of keys, parts).
template <typename T, int kDim, bool kTurns>
__global__ void __launch_bounds__(Shape<kDim>::kThreads, kLeastBlocks<T, kDim>.key_gradients)
    key_gradients_kernel(const __grid_constant__ Call<T> call) {
  using S = Shape<kDim>;
  using Memory = KeyGradientMemory<T, kDim>;
  extern __shared__ __align__(128) std::byte shared[];
  const Memory memory{shared};
  wait_for_previous();
  let_next_begin();
  const Task task = key_task(call);
  if (task.first == task.end) return;
  const Rows<const T> k = key_rows(call.inputs.k, task, call.vectors.k);
  const Rows<const T> v = key_rows(call.inputs.v, task, call.vectors.v);
  const int tiles = static_cast<int>(divide_up(task.end - task.first, S::kTokens));
  Stager<T> keys(k, task.first, task.end, S::kTokens);
  Stager<T> values(v, task.first, task.end, S::kTokens);
  const LaneTile<T, kDim> lane_keys(memory.keys()), lane_values(memory.values());
  auto stage_tile = [&](int tile) {
    keys.stage(lane_keys.moved(Memory::stage(tile)));
    values.stage(lane_values.moved(Memory::stage(tile)));
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
  const KeyGradients<T, kDim, kTurns> pass{call,
                                           memory.vectors(),
                                           right,
                                           transposed,
                                           key_rows(call.gradients.k, task, call.vectors.d_key),
                                           key_rows(call.gradients.v, task, call.vectors.d_value)};
  LaneTokens tokens(call.k_turning, task, task.sequence.k_width, S::kTokens);
  for (int tile = 0; tile < tiles; ++tile) {
    wait_copies<0>();  // lanes read what they copied themselves
    if (Memory::kStages == 2 && tile + 1 < tiles) stage_tile(tile + 1);
    const int stage = Memory::stage(tile);
    pass.run(lane_keys.moved(stage), lane_values.moved(stage), tokens);
    tokens.advance(S::kTokens);
    if (Memory::kStages == 1 && tile + 1 < tiles) stage_tile(tile + 1);
  }
}

}  // namespace mala::gpu
