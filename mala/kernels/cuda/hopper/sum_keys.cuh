// The first pass of the forward on Hopper: keys into sums, by products of whole warpgroups. Usual
// calls in bfloat16 alone.
#pragma once

#include "mala/kernels/cuda/feature.cuh"
#include "mala/kernels/cuda/hopper/matrix.cuh"
#include "mala/kernels/cuda/sum_keys.cuh"

namespace mala::gpu::hopper {

// Warpgroups have 64 features of the sums each.
template <int kDim>
constexpr int kSumThreads = 128 * HeadAccumulator<kDim>::kPanels;

// Stages of values, two tiles of features in two parts, ones, and where turns are.
template <int kDim>
struct SumMemory {
  using S = TileShare<kDim, kSumThreads<kDim>>;
  static constexpr int kFeatures = 2 * S::kTileBytes, kOnes = kFeatures + 4 * S::kTileBytes;
  static constexpr int kOnesBytes = 16 * kStepRows, kSpots = kOnes + kOnesBytes;
  static constexpr int kBytes = kSpots + 2 * kRowTokens * static_cast<int>(sizeof(Spot));

  std::byte* memory;

  __device__ __forceinline__ uint32_t values(int tile) const {
    return shared_address(memory) + tile % 2 * S::kTileBytes;
  }
  // Those of a tile, part 0 or 1.
  __device__ __forceinline__ uint32_t features(int tile, int part) const {
    return shared_address(memory) + kFeatures + (2 * (tile % 2) + part) * S::kTileBytes;
  }
  __device__ __forceinline__ uint32_t ones() const { return shared_address(memory) + kOnes; }
  __device__ __forceinline__ Spot* spots(int tile) const {
    return reinterpret_cast<Spot*>(memory + kSpots) + tile % 2 * kRowTokens;
  }
};

// A thread's units of keys, on their way from memory while the tile before is worked on.
template <int kDim>
struct KeyUnits {
  using S = TileShare<kDim, kSumThreads<kDim>>;
  const BFloat16* next;
  int64_t stride;
  int left;  // tokens from the thread's first of that tile on
  uint4 raw[S::kPieces] = {};

  __device__ __forceinline__ KeyUnits(const Rows<const BFloat16>& rows, const Task& task)
      : next(rows.at(task.first + S::row(), 8 * S::unit())),
        stride(rows.token_stride),
        left(static_cast<int>(task.end - task.first) - S::row()) {}

  __device__ __forceinline__ void ask(int piece) {
    const int rows = piece * S::kRowsAtOnce;
    if (rows < left) raw[piece] = __ldg(reinterpret_cast<const uint4*>(next + rows * stride));
  }
  __device__ __forceinline__ void go_on() {
    next += kRowTokens * stride;
    left -= kRowTokens;
  }
};

// What becomes of them: features in two parts, into panels, and sums of features.
template <int kDim, class Kind>
struct KeyFeatures {
  using S = TileShare<kDim, kSumThreads<kDim>>;
  const Turning& turning;
  int pair;
  bool by_column;
  Eight plain = {}, turned = {};  // sums

  __device__ __forceinline__ explicit KeyFeatures(const Turning& by)
      : turning(by), pair(4 * S::unit()), by_column(goes_by_column<Kind::kHow>(by, pair)) {}

  // kWhole: all tokens of the tile exist, and keys of the next are asked for as soon as there is
  // room.
  template <bool kWhole>
  __device__ __forceinline__ void write(KeyUnits<kDim>& keys, const Spot* spots, uint32_t first,
                                        uint32_t rest) {
    const int left = keys.left + kRowTokens;
#pragma unroll
    for (int piece = 0; piece < S::kPieces; ++piece) {
      const int rows = piece * S::kRowsAtOnce;
      Turns<Kind::kHow, 8> by;
      if (Kind::kTurns) {
        const Spot* both = spots + S::row() + rows;
        const AxisSpot spot = reinterpret_cast<const AxisSpot*>(both)[by_column];
        by.two[0] = turns_of_two<Kind::kHow>(turning, spot, pair);
        by.two[1] = turns_of_two<Kind::kHow>(turning, spot, pair + 2);
      }
      const Eight phi = features<BFloat16>(Feature::kElu1, unpack<BFloat16>(keys.raw[piece]));
      if (kWhole) keys.ask(piece);
      const Eight y = rotated<false>(phi, turning, by);
      const bool exists = kWhole || rows < left;
      if (exists) add_scaled(plain, 1.0f, phi);
      if (exists && Kind::kTurns) add_scaled(turned, 1.0f, y);
      const uint32_t at = S::place() + piece * S::kPieceBytes;
      store_parts(first + at, rest + at, y, exists);
    }
  }
};

// A warpgroup's share of the sums of a part: 64 features by all values, and 64 of the values.
template <int kDim>
struct KeySums {
  using S = TileShare<kDim, kSumThreads<kDim>>;
  int group;
  uint64_t features, values, ones;
  HeadAccumulator<kDim> products;
  Accumulator<8> value_sums;

  __device__ __forceinline__ explicit KeySums(const SumMemory<kDim>& memory)
      // Taken from one lane, so that the compiler knows it to be the same for all.
      : group(S::kPanels == 1 ? 0 : __shfl_sync(~0u, static_cast<int>(threadIdx.x / 128), 0)),
        features(panel(memory.features(0, 0) + group * S::kPanelBytes)),
        values(panel(memory.values(0))),
        ones(narrow_panel(memory.ones())) {}

  __device__ __forceinline__ void add(int tile) {
    begin_products();
#pragma unroll
    for (int step = 0; step < kRowTokens / kStepRows; ++step) {
      constexpr int kStepBytes = kStepRows * kPanelRowBytes;
      const uint64_t left = moved(features, tile % 2 * 2 * S::kTileBytes + step * kStepBytes);
      const uint64_t right = moved(values, tile % 2 * S::kTileBytes + step * kStepBytes);
      const bool adds = tile > 0 || step > 0;
#pragma unroll
      for (int p = 0; p < S::kPanels; ++p) {
        const uint64_t of_panel = moved(right, p * S::kPanelBytes);
        products.multiply_panel(p, left, of_panel, adds);
        products.multiply_panel(p, moved(left, S::kTileBytes), of_panel, true);
      }
      multiply(value_sums, moved(right, group * S::kPanelBytes), ones, adds);
    }
    commit_products();
  }

  __device__ __forceinline__ void write(const StateLayout& layout, float* to) const {
    const int t = threadIdx.x % 4, first = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + 8 * half;
#pragma unroll
      for (int j = 0; j < kDim / 8; ++j) {
        *reinterpret_cast<float2*>(to + row * kDim + 8 * j + 2 * t) = {products.at(j, half, 0),
                                                                       products.at(j, half, 1)};
      }
      if (t == 0) to[layout.values() + row] = value_sums.at(0, half, 0);
    }
  }
};

// Adds what threads hold of sums over features and writes them. `shared` has room for kRowsAtOnce
// rows of kDim floats.
template <int kDim>
__device__ __forceinline__ void write_unit_sums(const Eight& sums, float* shared, float* to) {
  using S = TileShare<kDim, kSumThreads<kDim>>;
  __syncthreads();
  store_eight(shared + S::row() * kDim + 8 * S::unit(), sums);
  __syncthreads();
  for (int i = threadIdx.x; i < kDim; i += kSumThreads<kDim>) {
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < S::kRowsAtOnce; ++j) sum += shared[j * kDim + i];
    to[i] = sum;
  }
}

// Grid (heads of keys, parts): the sums of a part.
template <int kDim, class Kind>
__global__ void __launch_bounds__(kSumThreads<kDim>, kDim <= 64 ? 4 : 2)
    sum_keys_kernel(const __grid_constant__ Call<BFloat16> call) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using S = TileShare<kDim, kSumThreads<kDim>>;
  using Memory = SumMemory<kDim>;
  static_assert(S::kWorkers == kSumThreads<kDim>);
  extern __shared__ __align__(128) std::byte shared[];
  const Memory memory{aligned(shared)};
  if (call.table) wait_for_previous();  // which may have written it; tensors were there before
  const Task task = key_task(call);
  if (task.first == task.end) return;
  const int tokens = static_cast<int>(task.end - task.first);
  const int tiles = static_cast<int>(divide_up(tokens, kRowTokens));
  if (threadIdx.x < Memory::kOnesBytes / 16) {
    constexpr uint32_t kOnes = 0x3F803F80u;
    store_shared(memory.ones() + 16 * threadIdx.x, {kOnes, kOnes, kOnes, kOnes});
  }
  KeyUnits<kDim> keys(key_rows<Kind>(call.inputs.k, task, true), task);
#pragma unroll
  for (int piece = 0; piece < S::kPieces; ++piece) keys.ask(piece);
  keys.go_on();
  TileCopier<kDim, kSumThreads<kDim>> values(key_rows<Kind>(call.inputs.v, task, true), task);
  values.copy(memory.values(0));
  wait_for_previous();
  let_next_begin();

  SpotWriter<Kind, kRowTokens> spots(call.k_turning, task, task.sequence.k_width);
  spots.write(memory.spots(0));
  __syncthreads();
  KeyFeatures<kDim, Kind> features(call.k_turning);
  KeySums<kDim> sums(memory);
  for (int tile = 0; tile < tiles; ++tile) {
    const uint32_t first = memory.features(tile, 0), rest = memory.features(tile, 1);
    if ((tile + 1) * kRowTokens <= tokens) {
      features.template write<true>(keys, memory.spots(tile), first, rest);
    } else {
      features.template write<false>(keys, memory.spots(tile), first, rest);
    }
    keys.go_on();
    spots.write(memory.spots(tile + 1));
    wait_copies<0>();
    wait_products();
    show_to_tensor_cores();
    __syncthreads();  // everyone's tile is here, and everyone is done with the one before
    if (tile + 1 < tiles) values.copy(memory.values(tile + 1));
    sums.add(tile);
  }
  wait_products();

  float* to = call.parts + task.slot * call.layout.size();
  sums.write(call.layout, to);
  auto* vectors = reinterpret_cast<float*>(memory.memory);
  if (!Kind::kTurns) features.turned = features.plain;
  write_unit_sums<kDim>(features.plain, vectors, to + call.layout.keys());
  write_unit_sums<kDim>(features.turned, vectors, to + call.layout.rotated_keys());
#else
  __trap();  // never launched there
#endif
}

}  // namespace mala::gpu::hopper
