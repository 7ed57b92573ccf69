// The first pass of the forward: keys into sums.
#pragma once

#include "mala/kernels/cuda/feature.cuh"
#include "mala/kernels/cuda/sums.cuh"
#include "mala/kernels/cuda/task.cuh"

namespace mala::gpu {

// Shared memory of a block that sums keys: where the turns of a tile's tokens are, of this tile and
// the next, and stages of keys and values.
template <typename T, int kDim>
struct KeySumMemory {
  using S = SumShape<T, kDim>;
  static constexpr int kSpotBytes = S::kTokens * sizeof(Spot);
  static constexpr int kKeyBytes = S::kTokens * kDim * sizeof(T);
  static constexpr int kValueBytes = S::kTokens * S::kChunk * sizeof(T);
  using Staged = Stages<2 * kSpotBytes, kKeyBytes + kValueBytes>;

  static constexpr int kWriterBytes = 3 * kDim * 4 + SumWriter<T, kDim, false>::kBytes;
  static_assert(kWriterBytes <= kSharedBytes);

  static constexpr int bytes(int of_device) {
    return std::max(Staged::bytes(of_device), kWriterBytes);
  }

  std::byte* memory;

  __device__ Spot* spots(int tile) const {
    return reinterpret_cast<Spot*>(memory) + tile % 2 * S::kTokens;
  }
  __device__ Tile<T, kDim> keys() const { return {reinterpret_cast<T*>(memory + 2 * kSpotBytes)}; }
  __device__ Tile<T, S::kChunk> values() const {
    return {reinterpret_cast<T*>(memory + 2 * kSpotBytes + kKeyBytes)};
  }
};

// A warp's share of the sums of a part. The warps of a slice take turns, eight tokens each.
template <typename T, int kDim, class Kind>
struct KeySums {
  using S = SumShape<T, kDim>;
  using Place = SumPlace<T, kDim>;
  using Sums = gpu::Sums<T, kDim, false>;
  static constexpr int kSteps = S::kTokens / Place::kStep, kBlocks = S::kChunk / kBlockCols;

  const Call<T>& call;
  Place place;
  FourAddresses<T, kDim> keys;
  FourAddresses<T, S::kChunk> values;
  int tokens_left, left;  // of the part, and from the lane's first on
  int pair;
  bool by_column;
  Sums sums;
  // Sums of this lane's features: before and after they turn, and as products take them.
  Four plain = {}, turned = {}, rounded = {};
  // Fine types are summed about the mean of the part's first values, since what all have in common
  // would leave fewer digits to the rest.
  Four centre[kBlocks] = {};

  __device__ __forceinline__ KeySums(const Call<T>& of, const Task& task,
                                     const KeySumMemory<T, kDim>& memory)
      : call(of),
        keys(memory.keys(), place.first_token(), place.feature()),
        values(memory.values(), place.first_token(), 4 * place.g),
        tokens_left(static_cast<int>(task.end - task.first)),
        left(tokens_left - place.first_token()),
        pair(place.feature() / 2),
        by_column(goes_by_column<Kind::kHow>(of.k_turning, pair)) {}

  // From the first tile, whose tokens beyond the part are zeros.
  __device__ __forceinline__ void find_centre(int stage) {
    const float inverse = 1.0f / static_cast<float>(min(tokens_left, 8));
    const int back = -8 * place.group;  // to the first group's tokens
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const Four a = values.four(0, block, back, stage), b = values.four(1, block, back, stage);
#pragma unroll
      for (int i = 0; i < 4; ++i) centre[block].x[i] = inverse * row_sum(a.x[i] + b.x[i]);
    }
  }

  // A tile whose keys and values stand `stage` bytes after the first.
  __device__ __forceinline__ void add_tile(const Spot* spots, int stage) {
    const auto* axis = reinterpret_cast<const AxisSpot*>(spots + place.first_token()) + by_column;
    if (!kFine<T> && tokens_left >= S::kTokens) {
      add_tokens<true>(axis, stage);
    } else {
      add_tokens<false>(axis, stage);
    }
    tokens_left -= S::kTokens;
    left -= S::kTokens;
  }

  // By each warp, for its own lanes to read.
  __device__ __forceinline__ void store_centre(float* to) const {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      if (place.t == 0) store_four(to + block * kBlockCols + 4 * place.g, centre[block]);
    }
  }

 private:
  // kWhole: all tokens of the tile exist.
  template <bool kWhole>
  __device__ __forceinline__ void add_tokens(const AxisSpot* spots, int stage) {
#pragma unroll(kFine <T> ? 1 : kSteps)
    for (int step = 0; step < kSteps; ++step) {
      const int tokens = step * Place::kStep;
      const FourParts<T> upper = features_of<kWhole>(spots, 0, tokens, stage);
      const FourParts<T> lower = features_of<kWhole>(spots, 1, tokens, stage);
      sums.add(place, upper, lower, {1.0f, 1.0f}, [&](int half, int block) {
        Four x = values.four(half, block, tokens, stage);
        if constexpr (kFine<T>) add_scaled(x, -counts<kWhole>(tokens + 4 * half), centre[block]);
        return x;
      });
    }
  }

  template <bool kWhole>
  __device__ __forceinline__ float counts(int tokens) const {
    return kWhole || left > tokens ? 1.0f : 0.0f;
  }

  template <bool kWhole>
  __device__ __forceinline__ FourParts<T> features_of(const AxisSpot* spots, int half, int tokens,
                                                      int stage) {
    // Asked for first, so that they arrive while phi is computed.
    const Turns<Kind::kHow, 4> by(call.k_turning, spots[2 * (tokens + 4 * half)], pair);
    const Four phi = features<T>(Kind::feature(call), keys.four(half, 0, tokens, stage));
    const float count = counts<kWhole>(tokens + 4 * half);
    add_scaled(plain, count, phi);
    const Four y = gpu::rotated<false>(phi, call.k_turning, by);
    if (Kind::kTurns) add_scaled(turned, count, y);
    const FourParts<T> parts(y);
#pragma unroll
    for (int i = 0; i < 4 && !kFine<T>; ++i) {
      rounded.x[i] = fmaf(count, parts.x[i].value(), rounded.x[i]);
    }
    return parts;
  }
};

// Each thread walks with one token of tile after tile, and writes down where its turns are.
template <class Kind, int kTokens>
struct SpotWriter {
  const Turning& turning;
  Walk<Kind::kHow> walk;
  int left;

  __device__ __forceinline__ SpotWriter(const Turning& by, const Task& task, int64_t width)
      : turning(by),
        walk(by, task.sequence.earlier + task.first + threadIdx.x, width, kTokens),
        left(static_cast<int>(task.end - task.first - threadIdx.x)) {}

  __device__ __forceinline__ void write(Spot* to) {
    if (!Walk<Kind::kHow>::turns(turning) || threadIdx.x >= kTokens) return;
    to[threadIdx.x] = walk.spot(turning, left > 0);
    walk.advance(turning);
    left -= kTokens;
  }
};

template <typename T, int kDim, class Kind>
__device__ __forceinline__ void sum_keys_of_block(const Call<T>& call) {
  using S = SumShape<T, kDim>;
  using Memory = KeySumMemory<T, kDim>;
  extern __shared__ __align__(128) std::byte shared[];
  const Memory memory{shared};
  wait_for_previous();
  let_next_begin();
  const Task task = key_task(call);
  if (task.first == task.end) return;
  const int chunk = static_cast<int>(blockIdx.z) * S::kChunk;
  const Rows<const T> k = key_rows<Kind>(call.inputs.k, task, call.vectors.k);
  const Rows<const T> v = key_rows<Kind>(call.inputs.v, task, call.vectors.v);
  const int tiles = static_cast<int>(divide_up(task.end - task.first, S::kTokens));
  const LaneTile<T, kDim, 1> lane_keys(memory.keys());
  const LaneTile<T, S::kChunk, 1> lane_values(memory.values());
  Stager<T, S::kTokens> keys(k, task.first, task.end, lane_keys.row());
  Stager<T, S::kTokens> values(v, task.first, task.end, lane_values.row(), chunk);
  auto stage_tile = [&](int tile) {
    if (has_rows<S, S::kTokens>(threadIdx.x)) {
      keys.stage(lane_keys.moved(Memory::Staged::offset(tile)));
      values.stage(lane_values.moved(Memory::Staged::offset(tile)));
    }
    commit_copies();
  };

  stage_tile(0);
  SpotWriter<Kind, S::kTokens> spots(call.k_turning, task, task.sequence.k_width);
  spots.write(memory.spots(0));
  KeySums<T, kDim, Kind> sums(call, task, memory);
  for (int tile = 0; tile < tiles; ++tile) {
    wait_copies<0>();
    __syncthreads();
    if (Memory::Staged::are_two() && tile + 1 < tiles) stage_tile(tile + 1);
    spots.write(memory.spots(tile + 1));
    if (kFine<T> && tile == 0) sums.find_centre(Memory::Staged::offset(0));
    sums.add_tile(memory.spots(tile), Memory::Staged::offset(tile));
    if (!Memory::Staged::are_two() && tile + 1 < tiles) {
      __syncthreads();
      stage_tile(tile + 1);
    }
  }

  float* to = call.parts + task.slot * call.layout.size();
  auto* vectors = reinterpret_cast<float*>(shared);
  if (!Kind::kTurns) sums.turned = sums.plain;
  if (chunk == 0) {
    write_feature_sums(sums.plain, sums.place, vectors, call.layout.dim, to + call.layout.keys());
    write_feature_sums(sums.turned, sums.place, vectors, call.layout.dim,
                       to + call.layout.rotated_keys());
  }
  float* lost = vectors + 2 * kDim;
  const auto count = static_cast<float>(task.end - task.first);
  if constexpr (!kFine<T>) add_scaled(sums.turned, -1.0f, sums.rounded);
  write_feature_sums(sums.turned, sums.place, vectors, kDim, lost);
  __syncthreads();
  if constexpr (kFine<T>) sums.store_centre(vectors);
  SumWriter<T, kDim, false>::write(sums.sums, sums.place, vectors + 3 * kDim,
                                   {call.layout, chunk, to}, {lost, vectors, count});
}

// Grid (heads of keys, parts, chunks of values): the sums of a part.
template <typename T, int kDim, class Kind>
__global__ void __launch_bounds__(SumShape<T, kDim>::kThreads, kLeastBlocks<T, kDim>.sum_keys)
    sum_keys_kernel(const __grid_constant__ Call<T> call) {
  if constexpr (kLeftToHopper<Kind>) {
    __trap();  // never launched there
  } else {
    sum_keys_of_block<T, kDim, Kind>(call);
  }
}

}  // namespace mala::gpu
