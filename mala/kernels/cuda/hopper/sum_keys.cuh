// The first pass of the forward on Hopper: keys into sums, by products of whole warpgroups. Usual
// calls in bfloat16 alone.
#pragma once

#include "mala/kernels/cuda/feature.cuh"
#include "mala/kernels/cuda/hopper/cluster.cuh"
#include "mala/kernels/cuda/hopper/matrix.cuh"

namespace mala::gpu::hopper {

// Warpgroups of a team have 64 features of the sums each.
template <int kDim>
constexpr int kSumThreads = kGroupThreads* HeadAccumulator<kDim>::kPanels;

// How many teams a block has.
template <int kDim>
constexpr int kSumTeams = teams_on_hopper(kDim).sum_keys;

// Of a team: slots of keys; then two stages of values and a tile of features in two parts, which
// leave their place to the sums; and where turns are, of this tile and the next.
template <int kDim>
struct SumMemory {
  using S = TileShare<kDim, kSumThreads<kDim>>;
  static constexpr int kSums = kDim * kDim + 3 * kDim;  // floats
  static constexpr int kFeatures = 2 * S::kTileBytes;
  static constexpr int kTileBytes =
      std::max(4 * S::kTileBytes, (4 * kSums + kAlign - 1) / kAlign * kAlign);
  static constexpr int kSpotBytes = 2 * kRowTokens * static_cast<int>(sizeof(Spot));

  uint32_t keys, tiles;
  Spot* spots;

  __device__ __forceinline__ uint32_t values(int tile) const {
    return tiles + tile % 2 * S::kTileBytes;
  }
  __device__ __forceinline__ uint32_t features() const { return tiles + kFeatures; }
  __device__ __forceinline__ Spot* spots_of(int tile) const {
    return spots + tile % 2 * kRowTokens;
  }
};

// Each thread of the first of a team walks with one token of tile after tile, and writes down where
// its turns are.
template <class Kind>
struct SpotWriter {
  const Turning& turning;
  Walk<Kind::kHow> walk;
  int thread, left, step;

  __device__ __forceinline__ SpotWriter(const Turning& by, const Task& task, int team, int of,
                                        int tokens)
      : turning(by),
        walk(by, task.sequence.earlier + task.first + team * kRowTokens + of, task.sequence.k_width,
             tokens),
        thread(of),
        left(static_cast<int>(task.end - task.first) - team * kRowTokens - of),
        step(tokens) {}

  __device__ __forceinline__ void write(Spot* to) {
    if (!Kind::kTurns || thread >= kRowTokens) return;
    to[thread] = walk.spot(turning, left > 0);
    walk.advance(turning);
    left -= step;
  }
};

// What becomes of a thread's keys: features in two parts, into panels, and sums of them.
template <int kDim, class Kind>
struct KeyFeatures {
  using S = TileShare<kDim, kSumThreads<kDim>>;
  const Turning& turning;
  S share;
  int pair;
  bool by_column;
  Eight plain = {}, turned = {};  // sums

  __device__ __forceinline__ KeyFeatures(const Turning& by, const S& of)
      : turning(by),
        share(of),
        pair(4 * of.unit()),
        by_column(goes_by_column<Kind::kHow>(by, pair)) {}

  __device__ __forceinline__ Turns<Kind::kHow, 8> turns(const Spot* spots, int piece) const {
    if (!Kind::kTurns) return {};
    Turns<Kind::kHow, 8> by;
    const Spot* both = spots + share.row() + piece * S::kRowsAtOnce;
    const AxisSpot spot = reinterpret_cast<const AxisSpot*>(both)[by_column];
    by.two[0] = turns_of_two<Kind::kHow>(turning, spot, pair);
    by.two[1] = turns_of_two<Kind::kHow>(turning, spot, pair + 2);
    return by;
  }

  // kWhole: all tokens of the tile exist.
  template <bool kWhole>
  __device__ __forceinline__ void write(const uint4 (&raw)[S::kPieces], int left, const Spot* spots,
                                        uint32_t to) {
    if (!share.works()) return;
#pragma unroll
    for (int piece = 0; piece < S::kPieces; ++piece) {
      const Turns<Kind::kHow, 8> by = turns(spots, piece);
      const Eight phi = features<BFloat16>(Feature::kElu1, unpack<BFloat16>(raw[piece]));
      const Eight y = rotated<false>(phi, turning, by);
      const bool exists = kWhole || piece * S::kRowsAtOnce < left;
      if (exists) add_scaled(plain, 1.0f, phi);
      if (exists && Kind::kTurns) add_scaled(turned, 1.0f, y);
      const uint32_t at = to + share.place() + piece * S::kPieceBytes;
      store_parts(at, at + S::kTileBytes, y, exists);
    }
  }
};

// A warpgroup's share of the sums of its team: 64 features by all values, and 64 of the values.
template <int kDim>
struct KeySums {
  using S = TileShare<kDim, kSumThreads<kDim>>;
  int group;
  uint64_t features, values, ones;
  HeadAccumulator<kDim> products = {};
  Accumulator<8> value_sums = {};

  __device__ __forceinline__ KeySums(const SumMemory<kDim>& memory, uint32_t ones_at)
      : group(S::kPanels == 1
                  ? 0
                  : __shfl_sync(~0u, static_cast<int>(threadIdx.x / 128) % S::kPanels, 0)),
        features(panel(memory.features() + group * S::kPanelBytes)),
        values(panel(memory.values(0))),
        ones(narrow_panel(ones_at)) {}

  __device__ __forceinline__ void add(int tile) {
    begin_products();
#pragma unroll
    for (int step = 0; step < kRowTokens / kStepRows; ++step) {
      constexpr int kStepBytes = kStepRows * kPanelRowBytes;
      const uint64_t left = moved(features, step * kStepBytes);
      const uint64_t right = moved(values, tile % 2 * S::kTileBytes + step * kStepBytes);
#pragma unroll
      for (int p = 0; p < S::kPanels; ++p) {
        const uint64_t of_panel = moved(right, p * S::kPanelBytes);
        products.multiply_panel(p, left, of_panel, true);
        products.multiply_panel(p, moved(left, S::kTileBytes), of_panel, true);
      }
      multiply<8>(value_sums.c, moved(right, group * S::kPanelBytes), ones, true);
    }
    commit_products();
  }

  // In the layout of a state.
  __device__ __forceinline__ void write(float* to) const {
    const int t = threadIdx.x % 4;
    const int first = group * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + 8 * half;
      if (row >= kDim) continue;
#pragma unroll
      for (int j = 0; j < kDim / 8; ++j) {
        *reinterpret_cast<float2*>(to + row * kDim + 8 * j + 2 * t) = {products.at(j, half, 0),
                                                                       products.at(j, half, 1)};
      }
      if (t == 0) to[kDim * kDim + 2 * kDim + row] = value_sums.at(0, half, 0);
    }
  }
};

constexpr int kOnesBytes = 16 * kStepRows;  // a narrow panel
__device__ __forceinline__ void fill_ones(uint32_t to) {
  constexpr uint32_t kOnes = 0x3F803F80u;
  if (threadIdx.x < kOnesBytes / 16)
    store_shared(to + 16 * threadIdx.x, {kOnes, kOnes, kOnes, kOnes});
}

// The pass of one team over its tiles. Begins to copy as soon as it is made.
template <int kDim, class Kind>
struct SumPass {
  static constexpr int kThreads = kSumThreads<kDim>;
  using S = TileShare<kDim, kThreads>;
  using Memory = SumMemory<kDim>;

  Team<kThreads> team;
  Memory memory;
  int tiles, step;
  TileCopier<kDim, kThreads> keys, values;

  __device__ __forceinline__ SumPass(const Call<BFloat16>& call, const Task& task, int teams,
                                     const Memory& at)
      : memory(at),
        tiles(team.tiles(task, teams)),
        step(teams * kRowTokens),
        keys(key_rows<Kind>(call.inputs.k, task, true), task, team),
        values(key_rows<Kind>(call.inputs.v, task, true), task, team) {
    copy(0);
  }

  __device__ __forceinline__ void copy(int tile) {
    keys.copy_to_slots(memory.keys, step);
    values.copy_to_panels(memory.values(tile), step);
    commit_copies();
  }

  // All tiles, into `to`, which may lie where they do. `ones` are there already.
  __device__ __forceinline__ void run(const Call<BFloat16>& call, const Task& task, uint32_t ones,
                                      float* to) {
    SpotWriter<Kind> spots(call.k_turning, task, team.index, team.thread, step);
    spots.write(memory.spots_of(0));
    team.sync();
    KeyFeatures<kDim, Kind> features(call.k_turning, keys.share);
    KeySums<kDim> sums(memory, ones);
    int left = static_cast<int>(task.end - task.first) - team.index * kRowTokens;
    for (int tile = 0; tile < tiles; ++tile) {
      wait_copies<0>();
      uint4 raw[S::kPieces];
#pragma unroll
      for (int piece = 0; piece < S::kPieces; ++piece) {
        raw[piece] = load_shared(memory.keys + 16 * (piece * kThreads + team.thread));
      }
      wait_products();
      team.sync();  // everyone is done with the tile before, and has values of this one
      if (tile + 1 < tiles) copy(tile + 1);
      if (left >= kRowTokens) {
        features.template write<true>(raw, 0, memory.spots_of(tile), memory.features());
      } else {
        features.template write<false>(raw, left - keys.share.row(), memory.spots_of(tile),
                                       memory.features());
      }
      left -= step;
      spots.write(memory.spots_of(tile + 1));
      show_to_tensor_cores();
      team.sync();  // everyone's features are here
      sums.add(tile);
    }
    wait_products();
    team.sync();
    sums.write(to);
    write_unit_sums(features, to);
  }

 private:
  // Adds what threads hold of sums over features, in the memory of the keys.
  __device__ __forceinline__ void write_unit_sums(const KeyFeatures<kDim, Kind>& features,
                                                  float* to) const {
    write_unit_sums(features.plain, to + kDim * kDim);
    write_unit_sums(Kind::kTurns ? features.turned : features.plain, to + kDim * kDim + kDim);
  }
  __device__ __forceinline__ void write_unit_sums(const Eight& sums, float* to) const {
    const S share = keys.share;
    const uint32_t at = memory.keys + 4 * (share.row() * kDim + 8 * share.unit());
    team.sync();
    if (share.works()) {
      store_shared(
          at, {bits_of(sums.x[0]), bits_of(sums.x[1]), bits_of(sums.x[2]), bits_of(sums.x[3])});
      store_shared(at + 16, {bits_of(sums.x[4]), bits_of(sums.x[5]), bits_of(sums.x[6]),
                             bits_of(sums.x[7])});
    }
    team.sync();
    if (team.thread < kDim / 4) {
      Four sum = {};
#pragma unroll
      for (int j = 0; j < S::kRowsAtOnce; ++j) {
        add_scaled(sum, 1.0f,
                   load_shared_four<float>(memory.keys + 4 * (j * kDim + 4 * team.thread)));
      }
      store_four(to + 4 * team.thread, sum);
    }
  }
};

// Shared memory of a block that only sums.
template <int kDim, int kTeams>
struct SumBlock {
  using Memory = SumMemory<kDim>;
  using S = typename Memory::S;
  static constexpr int kKeys = kTeams * Memory::kTileBytes;
  static constexpr int kSpots = kKeys + kTeams * S::kSlotBytes;
  static constexpr int kOnes = kSpots + kTeams * Memory::kSpotBytes;
  static constexpr int kBytes = kOnes + kOnesBytes;
  static_assert(S::kSlotBytes >= S::kRowsAtOnce * kDim * 4);

  static __device__ __forceinline__ Memory of_team(std::byte* memory, int team) {
    const uint32_t at = shared_address(memory);
    return {at + kKeys + team * S::kSlotBytes, at + team * Memory::kTileBytes,
            reinterpret_cast<Spot*>(memory + kSpots) + team * 2 * kRowTokens};
  }
};

// Grid (heads of keys, parts), clusters of parts: the sums of each cluster.
template <int kDim, int kTeams, class Kind>
__global__ void __launch_bounds__(kTeams* kSumThreads<kDim>, 1)
    sum_keys_kernel(const __grid_constant__ Call<BFloat16> call) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Block = SumBlock<kDim, kTeams>;
  using Memory = SumMemory<kDim>;
  extern __shared__ __align__(128) std::byte shared[];
  std::byte* memory = aligned(shared);
  if (call.table) wait_for_previous();  // which may have written it; tensors were there before
  const Task task = key_task(call);
  if (task.first == task.end && call.table) return;  // nobody waits for a part that there is not
  const Team<kSumThreads<kDim>> team;
  auto* sums = reinterpret_cast<float*>(memory);
  if (task.first < task.end) {
    const uint32_t ones = shared_address(memory) + Block::kOnes;
    fill_ones(ones);
    SumPass<kDim, Kind> pass(call, task, kTeams, Block::of_team(memory, team.index));
    __syncthreads();
    wait_for_previous();
    let_next_begin();
    pass.run(call, task, ones, sums + team.index * (Memory::kTileBytes / 4));
    add_teams(sums, Memory::kSums, kTeams, Memory::kTileBytes / 4);
  } else {  // the last cluster of a head may have more blocks than parts
    for (int i = threadIdx.x; i < Memory::kSums; i += blockDim.x) sums[i] = 0.0f;
    wait_for_previous();
    let_next_begin();
    __syncthreads();
  }
  const Cluster cluster;
  float* to = call.parts + task.slot / cluster.size * Memory::kSums;
  add_blocks(cluster, sums, Memory::kSums,
             [&](int i, const Four& four) { store_four(to + i, four); });
  if (cluster.size > 1) cluster.sync();  // nobody leaves while others read
#else
  __trap();  // never launched there
#endif
}

}  // namespace mala::gpu::hopper
