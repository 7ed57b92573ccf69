// The pass of the backward over keys on Hopper: writes the gradients of keys and values. Usual
// calls in bfloat16 alone.
#pragma once

#include "mala/kernels/cuda/feature.cuh"
#include "mala/kernels/cuda/hopper/matrix.cuh"
#include "mala/kernels/cuda/hopper/near_turns.cuh"

namespace mala::gpu::hopper {

// The transpose of dS with the base of rotated keys in three more rows, and dS.
template <int kDim>
struct StateGradient {
  static constexpr int kBaseBytes = Matrix<kDim>::kPanels * kStepRows * kPanelRowBytes;
  static constexpr int kBase = Matrix<kDim>::kBytes, kRight = kBase + kBaseBytes;
  static constexpr int kBytes = kRight + FineMatrix<kDim>::kBytes;
};

// These matrices, vectors; for each team stages of values and slots of keys. Ones do not stand at
// the end: they serve as 2 KiB of a left side, and compute-sanitizer takes them for that long.
template <int kDim, int kTeamsOfBlock>
struct KeyGradientBlock {
  using S = TileShare<kDim, kGroupThreads>;
  using Matrices = StateGradient<kDim>;
  static constexpr int kTeams = kTeamsOfBlock, kThreads = kTeams * kGroupThreads;
  static constexpr int kStages = kDim <= 64 ? 2 : 1;
  static constexpr int kMatrices = 0, kValues = (Matrices::kBytes + kAlign - 1) / kAlign * kAlign;
  static constexpr int kOnes = kValues + kTeams * kStages * S::kTileBytes;
  static constexpr int kSlots = kOnes + kNarrowGroupBytes;
  static constexpr int kVectors = kSlots + kTeams * LaneRows<kDim>::kSlotBytes;
  static constexpr int kTurns = kVectors + KeyVectors<kDim>::kBytes;
  static constexpr int kBytes = kTurns + near_bytes_of_keys(kDim, kTeams);
  static constexpr int kAtOnce = teams_on_hopper(kDim).key_gradients / kTeams;
  static_assert(fit_at_once(kAtOnce, kBytes));
};

// dS, whose floats lie at place(i), for products with features in registers, its transpose for
// those with values as they lie in memory. Those enter whole, not less their mean: what that adds
// is taken off the rotated key.
template <int kDim, class Block, class Place>
__device__ __forceinline__ void fill_state_gradient(const float* sums, Place place,
                                                    std::byte* memory,
                                                    const KeyVectors<kDim>& head) {
  using To = StateGradient<kDim>;
  const uint32_t at = shared_address(memory) + Block::kMatrices;
  const FineMatrix<kDim> right{at + To::kRight};
  right.template fill<Block::kThreads>([&](unsigned feature, unsigned column) {
    return load_four(sums + place(feature * kDim + column));
  });
  const Matrix<kDim> transposed{at};
  transposed.template fill<Block::kThreads>([&](unsigned k, unsigned unit, int pair) -> float2 {
    const unsigned from = (first_column(unit) + 8 * pair) * kDim + k;
    return {sums[place(from)], sums[place(from + kDim)]};
  });
  __syncthreads();
  right.fill_vector(head.value_base);
  for (int i = threadIdx.x; i < 4 * kDim; i += blockDim.x) {
    const int row = i / 4;
    float centre = 0.0f;
#pragma unroll 4
    for (int column = i % 4 * 4; column < kDim; column += 16) {
      centre = dot(load_four(sums + place(row * kDim + column)),
                   load_four(head.value_mean + column), centre);
    }
    centre = row_sum(centre);
    if (i % 4 == 0) head.d_rotated_key[row] -= centre;
  }
  for (int i = threadIdx.x; i < To::kBaseBytes / 16; i += blockDim.x) {
    store_shared(at + To::kBase + 16 * i, {});
  }
  fill_ones(shared_address(memory) + Block::kOnes, kNarrowGroupBytes);
  __syncthreads();
  // Three parts of bfloat16 are a float32.
  for (int i = threadIdx.x; i < kDim / 2; i += blockDim.x) {
    const int column = 2 * i, row = result_column(column);
    float low = head.d_rotated_key[column], high = head.d_rotated_key[column + 1];
    const uint32_t to = at + To::kBase + row / 64 * kStepRows * kPanelRowBytes;
    for (int part = 0; part < 3; ++part) {
      const TwoParts two(low, high);
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(to + in_panel(part, row % 64 / 8) + row % 8 * 2),
                   "r"(two.first)
                   : "memory");
      low -= low_of<BFloat16>(two.first);
      high -= high_of<BFloat16>(two.first);
    }
  }
}

// a turned, or turned back, and b added.
template <bool kBack, Turned kHow>
__device__ __forceinline__ Eight rotated_plus(const Eight& a, const Turns<kHow, 8>& by,
                                              const Eight& b) {
  Eight y;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float4 two = by.two[i / 2];
    const float cos = i % 2 == 0 ? two.x : two.z, sin = i % 2 == 0 ? two.y : two.w;
    const float s = kBack ? -sin : sin, x0 = a.x[2 * i], x1 = a.x[2 * i + 1];
    y.x[2 * i] = kHow == Turned::kNot ? x0 + b.x[2 * i] : fmaf(x0, cos, fmaf(-x1, s, b.x[2 * i]));
    y.x[2 * i + 1] =
        kHow == Turned::kNot ? x1 + b.x[2 * i + 1] : fmaf(x1, cos, fmaf(x0, s, b.x[2 * i + 1]));
  }
  return y;
}

// The pass of one warpgroup over its tiles. Begins to copy as soon as it is made.
template <int kDim, class Block, class Kind>
struct KeyGradientPass {
  using S = typename Block::S;
  static constexpr int kBlocks = kDim / kBlockCols, kStep = Block::kTeams * kRowTokens;

  Team<kGroupThreads> team;
  int tiles;
  uint32_t stages;
  TileCopier<kDim, kGroupThreads> values;
  LaneRows<kDim> keys;

  __device__ __forceinline__ KeyGradientPass(const Call<BFloat16>& call, const Task& task,
                                             uint32_t memory)
      : tiles(team.tiles(task, Block::kTeams)),
        stages(memory + Block::kValues + team.index * Block::kStages * S::kTileBytes),
        values(key_rows<Kind>(call.inputs.v, task, true), task, team),
        keys(key_rows<Kind>(call.inputs.k, task, true), task, team,
             memory + Block::kSlots + team.index * LaneRows<kDim>::kSlotBytes) {
    keys.copy(kStep);
    copy_values(0);
  }

  // And what was copied of keys before.
  __device__ __forceinline__ void copy_values(int tile) {
    values.copy(stages + tile % Block::kStages * S::kTileBytes, kStep);
    commit_copies();
  }

  __device__ __forceinline__ void run(const Call<BFloat16>& call, const Turning& turning,
                                      const Task& task, const KeyVectors<kDim>& head,
                                      uint32_t memory) {
    const uint32_t matrices = memory + Block::kMatrices;
    const uint64_t transposed = Matrix<kDim>{matrices}.panels();
    const uint64_t base = panel(matrices + StateGradient<kDim>::kBase, kStepRows * kPanelRowBytes);
    const FineMatrix<kDim> matrix{matrices + StateGradient<kDim>::kRight};
    const uint64_t right = matrix.panels(), vector = matrix.vector(), all_values = panel(stages);
    const int t = team.thread % 4, row = team.index * kRowTokens + team.row();
    RowCursor<BFloat16> d_key(key_rows<Kind>(call.gradients.k, task, true), task, row, 8 * t);
    RowCursor<BFloat16> d_value(key_rows<Kind>(call.gradients.v, task, true), task, row, 8 * t);
    LaneTokens<Kind, 1> tokens(turning, task, task.sequence.k_width, row, kStep);
    for (int tile = 0; tile < tiles; ++tile) {
      wait_copies<0>();
      uint4 raw[2][kBlocks];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) raw[half][block] = keys.raw(half, block);
      }
      show_to_tensor_cores();
      team.sync();  // everyone's values are here, and everyone is done with those before
      if (tile + 1 < tiles) {
        keys.copy(kStep);
        if (Block::kStages == 2) copy_values(tile + 1);
      }
      HeadAccumulator<kDim> product;
      begin_products();
      multiply_rows(product, moved(all_values, tile % Block::kStages * S::kTileBytes),
                    S::kPanelBytes, transposed);
      add_base(product, memory, base);
      commit_products();

      const Spot spots[2] = {tokens.spot(0), tokens.spot(1)};
      Eight phi[kBlocks][2];
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          phi[block][half] = usual_features(raw[half][block]);
        }
      }
      wait_products();
      if (Block::kStages == 1 && tile + 1 < tiles) {
        team.sync();  // everyone is done with the values
        copy_values(tile + 1);
      }
      // Features less their mean: what they have in common is added in float32. Where registers are
      // few they turn only when keys have been written.
      constexpr bool kAtOnce = kDim == 64;
      Eight turned[kBlocks][2];
      auto turn = [&](int half, int block, const Turns<Kind::kHow, 8>& by, const Eight& mean) {
        turned[block][half] = rotated_plus<false>(phi[block][half], by, mean);
      };
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        const int column = block * kBlockCols + 8 * t;
        const Eight key_base = gpu::eight_of(head.d_key, column), mean = less_mean(head, column);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const Turns<Kind::kHow, 8> by(turning, spots[half], column);
          const Eight dk = rotated_plus<true>(eight_of(product, half, block), by, key_base);
          store_eight_if(d_key.exists(8 * half), d_key.at(8 * half) + block * kBlockCols,
                         times_slope(Feature::kElu1, phi[block][half], dk));
          if (kAtOnce) turn(half, block, by, mean);
        }
      }
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        const int column = block * kBlockCols + 8 * t;
#pragma unroll
        for (int half = 0; half < 2 && !kAtOnce; ++half) {
          turn(half, block, {turning, spots[half], column}, less_mean(head, column));
        }
        begin_products();
        multiply_block(product, block, turned[block][0], turned[block][1], right);
      }
      multiply_vector(product, {1.0f, 1.0f}, vector);
      commit_products();
      wait_products();
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        BFloat16* to = d_value.at(8 * half);
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
          store_eight_if(d_value.exists(8 * half), to + block * kBlockCols,
                         eight_of(product, half, block));
        }
      }
      d_key.go_on(kStep);
      d_value.go_on(kStep);
      tokens.advance(turning, kStep);
    }
    wait_copies<0>();  // of a team without tiles
  }

 private:
  static __device__ __forceinline__ Eight less_mean(const KeyVectors<kDim>& head, int column) {
    return scaled(gpu::eight_of(head.mean_key, column), -1.0f);
  }

  static __device__ __forceinline__ void add_base(HeadAccumulator<kDim>& to, uint32_t memory,
                                                  uint64_t base) {
    // One group of ones again and again.
    const uint64_t ones = uint64_t{((memory + Block::kOnes) & 0x3FFFFu) >> 4};
    multiply<kDim, LeftRows::kKept>(to.c, ones, base, true);
  }
};

// Matrices and vectors of a head, from the gradient of its state; then everyone may read them.
template <int kDim, class Block, class Place>
__device__ __forceinline__ void show_state_gradient(const Call<BFloat16>& call, const Task& task,
                                                    const float* sums, Place place,
                                                    std::byte* memory) {
  const KeyVectors<kDim> head(memory + Block::kVectors);
  fill_vectors(call, call.state + task.unit * call.layout.size(), sums,
               head_scales(call, task.sequence.k_count), head);
  fill_state_gradient<kDim, Block>(sums, place, memory, head);
  show_to_tensor_cores();
  __syncthreads();
}

// Grid (heads of keys, parts).
template <int kDim, int kTeams, class Kind>
__global__ void __launch_bounds__(KeyGradientBlock<kDim, kTeams>::kThreads,
                                  KeyGradientBlock<kDim, kTeams>::kAtOnce)
    key_gradients_kernel(const __grid_constant__ Call<BFloat16> call) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Block = KeyGradientBlock<kDim, kTeams>;
  extern __shared__ __align__(kAlign) std::byte panels_of_block[];
  std::byte* memory = panels_of_block;
  if (call.table) wait_for_previous();
  const Task task = key_task(call);
  if (task.first == task.end) return;
  KeyGradientPass<kDim, Block, Kind> pass(call, task, shared_address(memory));
  Turning turning =
      near_turning<kDim, Kind>(call.k_turning, call.k_frequencies,
                               near_tokens(task, task.sequence.k_width), memory + Block::kTurns);
  wait_for_turns(turning);
  let_next_begin();
  show_state_gradient<kDim, Block>(
      call, task, call.gradient + task.unit * call.layout.size(), [](unsigned i) { return i; },
      memory);
  const KeyVectors<kDim> head(memory + Block::kVectors);
  pass.run(call, turning, task, head, shared_address(memory));
#else
  __trap();  // never launched there
#endif
}

}  // namespace mala::gpu::hopper
