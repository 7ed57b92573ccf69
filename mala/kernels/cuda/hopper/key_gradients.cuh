// The pass of the backward over keys on Hopper: writes the gradients of keys and values. Usual
// calls in bfloat16 alone.
#pragma once

#include "mala/kernels/cuda/feature.cuh"
#include "mala/kernels/cuda/hopper/matrix.cuh"

namespace mala::gpu::hopper {

// dS, its transpose, vectors, and stages of values.
template <int kDim>
struct KeyGradientMemory {
  using S = TileShare<kDim, kRowThreads>;
  static constexpr int kTransposed = Matrix<kDim>::kBytes;
  static constexpr int kValues = 2 * Matrix<kDim>::kBytes;
  static constexpr int kVectors = kValues + 2 * S::kTileBytes;
  static constexpr int kBytes = kVectors + KeyVectors<kDim>::kBytes;

  std::byte* memory;

  __device__ __forceinline__ Matrix<kDim> right() const { return {shared_address(memory)}; }
  __device__ __forceinline__ Matrix<kDim> transposed() const {
    return {shared_address(memory) + kTransposed};
  }
  __device__ __forceinline__ uint32_t values(int tile) const {
    return shared_address(memory) + kValues + tile % 2 * S::kTileBytes;
  }
  __device__ __forceinline__ KeyVectors<kDim> vectors() const {
    return KeyVectors<kDim>(memory + kVectors);
  }
};

// dS, from the features of left sides in registers to values; and back, from values as they lie in
// memory. Those enter whole, not less their mean: what that adds is taken off the rotated key.
template <int kDim>
__device__ __forceinline__ void fill_state_gradient(const float* sums,
                                                    const KeyGradientMemory<kDim>& memory) {
  memory.right().template fill<false>([&](int k, int unit, int pair) {
    const float* from = sums + feature_at(k) * kDim + first_column(unit);
    return reinterpret_cast<const float2*>(from)[4 * pair];
  });
  memory.transposed().template fill<true>([&](int k, int unit, int pair) -> float2 {
    const float* from = sums + (first_column(unit) + 8 * pair) * kDim + k;
    return {from[0], from[kDim]};
  });
  const KeyVectors<kDim> head = memory.vectors();
  __syncthreads();
  for (int i = threadIdx.x; i < kDim; i += kRowThreads) {
    float centre = 0.0f;
#pragma unroll 4
    for (int column = 0; column < kDim; column += 4) {
      centre =
          dot(load_four(sums + i * kDim + column), load_four(head.value_mean + column), centre);
    }
    head.d_rotated_key[i] -= centre;
  }
}

// This lane's rows of a tile: its keys, and where their gradients and those of values go.
template <int kDim, class Kind>
struct KeyGradientRows {
  static constexpr int kBlocks = kDim / kBlockCols;
  const Turning& turning;
  KeyVectors<kDim> head;
  Rows<BFloat16> d_key, d_value;

  // Of the tile at hand:
  Spot spots[2];
  Eight phi[kBlocks][2];

  static __device__ __forceinline__ int column(int block) {
    return block * kBlockCols + threadIdx.x % 4 * 8;
  }
  __device__ __forceinline__ Turns<Kind::kHow, 8> turns(int half, int block) const {
    return {turning, spots[half], column(block)};
  }

  // Features less their mean: what they have in common is added in float32.
  __device__ __forceinline__ void read(const LaneRows<kDim>& keys, LeftParts<kDim>& parts) {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const Eight mean = gpu::eight_of(head.mean_key, column(block));
      Eight turned[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Turns<Kind::kHow, 8> by = turns(half, block);
        phi[block][half] = features<BFloat16>(Feature::kElu1, keys.eight(half, block));
        turned[half] = rotated<false>(phi[block][half], turning, by);
        add_scaled(turned[half], -1.0f, mean);
      }
      parts.set(block, turned[0], turned[1]);
    }
  }

  __device__ __forceinline__ void write_keys(const HeadAccumulator<kDim>& products,
                                             const LaneTokens<Kind, 1>& tokens) const {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const Eight rotated_base = gpu::eight_of(head.d_rotated_key, column(block));
      const Eight key_base = gpu::eight_of(head.d_key, column(block));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Turns<Kind::kHow, 8> by = turns(half, block);
        Eight dk = eight_of(products, half, block);
        add_scaled(dk, 1.0f, rotated_base);
        dk = rotated<true>(dk, turning, by);
        add_scaled(dk, 1.0f, key_base);
        if (!tokens.exists(half)) continue;
        store_eight(d_key.at(tokens.token(half), column(block)),
                    times_slope(Feature::kElu1, phi[block][half], dk));
      }
    }
  }

  __device__ __forceinline__ void write_values(const HeadAccumulator<kDim>& products,
                                               const LaneTokens<Kind, 1>& tokens) const {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const Eight base = gpu::eight_of(head.value_base, column(block));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (!tokens.exists(half)) continue;
        Eight dv = eight_of(products, half, block);
        add_scaled(dv, 1.0f, base);
        store_eight(d_value.at(tokens.token(half), column(block)), dv);
      }
    }
  }
};

// Grid (heads of keys, parts).
template <int kDim, class Kind>
__global__ void __launch_bounds__(kRowThreads, kDim <= 64 ? 2 : 1)
    key_gradients_kernel(const __grid_constant__ Call<BFloat16> call) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Memory = KeyGradientMemory<kDim>;
  extern __shared__ __align__(128) std::byte shared[];
  const Memory memory{aligned(shared)};
  if (call.table) wait_for_previous();
  const Task task = key_task(call);
  if (task.first == task.end) return;
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  const int tiles = static_cast<int>(divide_up(task.end - task.first, kRowTokens));
  LaneRows<kDim> keys(key_rows<Kind>(call.inputs.k, task, true), task, row);
  keys.ask();
  TileCopier<kDim, kRowThreads> values(key_rows<Kind>(call.inputs.v, task, true), task);
  values.copy(memory.values(0));
  wait_for_previous();
  let_next_begin();

  const float* sums = call.gradient + task.unit * call.layout.size();
  fill_vectors(call, call.state + task.unit * call.layout.size(), sums,
               head_scales(call, task.sequence.k_count), memory.vectors());
  fill_state_gradient(sums, memory);

  const uint64_t right = memory.right().panels(), transposed = memory.transposed().panels();
  const uint64_t value_panels = panel(memory.values(0));
  KeyGradientRows<kDim, Kind> rows{call.k_turning, memory.vectors(),
                                   key_rows<Kind>(call.gradients.k, task, true),
                                   key_rows<Kind>(call.gradients.v, task, true)};
  LaneTokens<Kind, 1> tokens(call.k_turning, task, task.sequence.k_width, row, kRowTokens);
  for (int tile = 0; tile < tiles; ++tile) {
    wait_copies<0>();
    show_to_tensor_cores();
    __syncthreads();  // everyone's values are here, and everyone is done with those before
    if (tile + 1 < tiles) values.copy(memory.values(tile + 1));
    HeadAccumulator<kDim> of_keys;
    begin_products();
    multiply_rows(of_keys, moved(value_panels, tile % 2 * Memory::S::kTileBytes),
                  Memory::S::kPanelBytes, transposed);
    commit_products();

    rows.spots[0] = tokens.spot(0);
    rows.spots[1] = tokens.spot(1);
    LeftParts<kDim> parts;
    rows.read(keys, parts);
    if (tile + 1 < tiles) keys.ask();
    wait_products();
    rows.write_keys(of_keys, tokens);

    HeadAccumulator<kDim> of_values;
    begin_products();
    multiply(of_values, parts, right);
    commit_products();
    wait_products();
    rows.write_values(of_values, tokens);
    tokens.advance(call.k_turning, kRowTokens);
  }
#else
  __trap();  // never launched there
#endif
}

}  // namespace mala::gpu::hopper
