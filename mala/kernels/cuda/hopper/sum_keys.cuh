// The first pass of the forward on Hopper: keys into sums, by products of whole warpgroups. Usual
// calls in bfloat16 alone.
#pragma once

#include "mala/kernels/cuda/feature.cuh"
#include "mala/kernels/cuda/hopper/key_sums.cuh"
#include "mala/kernels/cuda/hopper/matrix.cuh"
#include "mala/kernels/cuda/hopper/near_turns.cuh"

namespace mala::gpu::hopper {

// How many teams a block has.
template <int kDim>
constexpr int kSumTeams = teams_on_hopper(kDim).sum_keys;

// Where the turns of a token are on both axes, as far as a kind needs to know.
struct RestSpot {
  int row, column;
};
template <class Kind>
using SpotOf = std::conditional_t<Kind::kHow == Turned::kNear, RestSpot, Spot>;
template <class Kind>
constexpr int kSpotBytes = 2 * kRowTokens* static_cast<int>(sizeof(SpotOf<Kind>));

__device__ __forceinline__ void set_spot(Spot& to, const Spot& from) { to = from; }
__device__ __forceinline__ void set_spot(RestSpot& to, const Spot& from) {
  to = {from.row.rest, from.column.rest};
}
__device__ __forceinline__ AxisSpot on_axis(const Spot* spot, bool by_column) {
  return reinterpret_cast<const AxisSpot*>(spot)[by_column];
}
__device__ __forceinline__ AxisSpot on_axis(const RestSpot* spot, bool by_column) {
  return {reinterpret_cast<const int*>(spot)[by_column], 0};
}

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

  __device__ __forceinline__ void write(SpotOf<Kind>* to) {
    if (!Kind::kTurns || thread >= kRowTokens) return;
    set_spot(to[thread], walk.spot(turning, left > 0));
    walk.advance(turning);
    left -= step;
  }
};

// A thread's units of keys, on their way from memory while the tile before is worked on.
template <int kDim>
struct KeyUnits {
  using S = TileShare<kDim, kSumThreads<kDim>>;
  const BFloat16* next;
  int64_t stride;
  uint4 raw[S::kPieces] = {};

  // Of the tile whose values are copied next: they have the same tokens.
  __device__ __forceinline__ void ask(int piece, const RowCursor<const BFloat16>& values) {
    const int row = piece * S::kRowsAtOnce;
    if (!values.exists(row)) return;
    raw[piece] = __ldg(reinterpret_cast<const uint4*>(next + row * stride));
  }
  __device__ __forceinline__ void go_on(int step) { next += step * stride; }
};

// What becomes of a thread's keys: features in two parts, into panels, and sums of them before they
// turn.
template <int kDim, class Kind>
struct KeyFeatures {
  using S = TileShare<kDim, kSumThreads<kDim>>;
  using Turns = gpu::Turns<Kind::kHow, 8>;
  const Turning& turning;
  S share;
  int pair;
  bool by_column;
  Eight plain = {};

  __device__ __forceinline__ KeyFeatures(const Turning& by, const S& of)
      : turning(by),
        share(of),
        pair(4 * of.unit()),
        by_column(goes_by_column<Kind::kHow>(by, pair)) {}

  __device__ __forceinline__ AxisSpot spot(const SpotOf<Kind>* spots, int piece) const {
    if (!Kind::kTurns) return {};
    return on_axis(spots + share.row() + piece * S::kRowsAtOnce, by_column);
  }

  // kWhole: all tokens of the tile exist. Keys of the next are asked for as soon as there is room.
  template <bool kWhole>
  __device__ __forceinline__ void write(KeyUnits<kDim>& keys,
                                        const RowCursor<const BFloat16>& values, int left,
                                        const SpotOf<Kind>* spots, uint32_t to) {
    if (!share.works()) return;
    AxisSpot spot_of[S::kPieces];  // all asked for at once
#pragma unroll
    for (int piece = 0; piece < S::kPieces; ++piece) spot_of[piece] = spot(spots, piece);
#pragma unroll
    for (int piece = 0; piece < S::kPieces; ++piece) {
      const Turns by(turning, spot_of[piece], pair);
      const Eight phi = usual_features(keys.raw[piece]);
      if (kWhole) keys.ask(piece, values);
      const bool exists = kWhole || piece * S::kRowsAtOnce < left;
      if (exists && Kind::kTurns) add_scaled(plain, 1.0f, phi);
      const uint32_t at = to + share.place() + piece * S::kPieceBytes;
      store_parts(at, at + S::kTileBytes, rotated<false>(phi, turning, by), exists);
    }
  }
};

// The pass of one team over its tiles. Begins to copy as soon as it is made.
template <int kDim, class Kind>
struct SumPass {
  static constexpr int kThreads = kSumThreads<kDim>;
  using S = TileShare<kDim, kThreads>;
  using Memory = SumMemory<kDim>;

  Team<kThreads> team;
  Memory memory;
  int tiles, step;
  TileCopier<kDim, kThreads> values;
  KeyUnits<kDim> keys;

  __device__ __forceinline__ SumPass(const Call<BFloat16>& call, const Task& task, int teams,
                                     const Memory& at)
      : memory(at),
        tiles(team.tiles(task, teams)),
        step(teams * kRowTokens),
        values(key_rows<Kind>(call.inputs.v, task, true), task, team) {
    const Rows<const BFloat16> rows = key_rows<Kind>(call.inputs.k, task, true);
    const int row = team.index * kRowTokens + values.share.row();
    keys.next = rows.at(task.first + row, 8 * values.share.unit());
    keys.stride = rows.token_stride;
#pragma unroll
    for (int piece = 0; piece < S::kPieces; ++piece) keys.ask(piece, values.rows);
    keys.go_on(step);
    if (tiles > 0) {  // else its place is that of sums at once
      copy(0);
      fill_ones_inside(memory, team.thread);
    }
  }

  __device__ __forceinline__ void copy(int tile) {
    values.copy(memory.values(tile), step);
    commit_copies();
  }

  // All tiles, into `to`, which may lie where they do. `ones` are there already.
  __device__ __forceinline__ void run(const Turning& turning, const Task& task, uint32_t ones,
                                      float* to) {
    using Spots = SpotOf<Kind>;
    SpotWriter<Kind> spots(turning, task, team.index, team.thread, step);
    spots.write(memory.template spots_of<Spots>(0));
    team.sync();
    KeyFeatures<kDim, Kind> features(turning, values.share);
    KeySums<kDim> sums(memory, ones);
    int left = static_cast<int>(task.end - task.first) - team.index * kRowTokens;
    for (int tile = 0; tile < tiles; ++tile) {
      if (left >= kRowTokens) {
        features.template write<true>(keys, values.rows, 0, memory.template spots_of<Spots>(tile),
                                      memory.features(tile));
      } else {
        features.template write<false>(keys, values.rows, left - values.share.row(),
                                       memory.template spots_of<Spots>(tile),
                                       memory.features(tile));
      }
      keys.go_on(step);
      left -= step;
      spots.write(memory.template spots_of<Spots>(tile + 1));
      wait_copies<0>();
      wait_products();
      show_to_tensor_cores();
      team.sync();  // everyone's tile is here, and everyone is done with the one before
      if (tile + 1 < tiles) copy(tile + 1);
      sums.add(tile);
    }
    wait_products();
    team.sync();
    sums.write(to, Kind::kTurns);
    if (Kind::kTurns) write_unit_sums(features.plain, to + kDim * kDim);
  }

 private:
  // Adds what threads hold of sums over features.
  __device__ __forceinline__ void write_unit_sums(const Eight& sums, float* to) const {
    const S share = values.share;
    const uint32_t plain = memory.tiles + Memory::kPlain;
    const uint32_t at = plain + 4 * (share.row() * kDim + 8 * share.unit());
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
        add_scaled(sum, 1.0f, load_shared_four<float>(plain + 4 * (j * kDim + 4 * team.thread)));
      }
      store_four(to + 4 * team.thread, sum);
    }
  }
};

// Shared memory of a block that only sums.
template <int kDim, int kTeams, class Kind>
struct SumBlock {
  using Memory = SumMemory<kDim>;
  static constexpr int kThreads = kTeams * kSumThreads<kDim>;
  static constexpr int kSpots = kTeams * Memory::kTileBytes;
  static constexpr int kOnes = kSpots + kTeams * kSpotBytes<Kind>;
  static constexpr int kTurns = kOnes + SumShare<kDim>::kOnesBytes;
  static constexpr int kBytes = kTurns + near_bytes<Kind>(near_bytes_forward(kDim, kTeams));
  static constexpr int kAtOnce = kSumTeams<kDim> / kTeams;  // on a multiprocessor
  static_assert(fit_at_once(kAtOnce, kBytes) && kOnes % kPanelRowBytes == 0);
};

// Grid (heads of keys, parts), clusters of parts: the sums of each cluster.
template <int kDim, int kTeams, class Kind>
__global__ void __launch_bounds__(SumBlock<kDim, kTeams, Kind>::kThreads,
                                  SumBlock<kDim, kTeams, Kind>::kAtOnce)
    sum_keys_kernel(const __grid_constant__ Call<BFloat16> call) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Block = SumBlock<kDim, kTeams, Kind>;
  using Memory = SumMemory<kDim>;
  extern __shared__ __align__(kAlign) std::byte panels_of_block[];
  std::byte* memory = panels_of_block;
  if (call.table) wait_for_previous();  // which may have written it; tensors were there before
  const Task task = key_task(call);
  if (task.first == task.end && call.table) return;  // nobody waits for a part that there is not
  const Team<kSumThreads<kDim>> team;
  auto* sums = reinterpret_cast<float*>(memory);
  if (task.first < task.end) {
    const uint32_t ones = shared_address(memory) + Block::kOnes;
    fill_ones(ones, SumShare<kDim>::kOnesBytes);
    SumPass<kDim, Kind> pass(call, task, kTeams,
                             {shared_address(memory) + team.index * Memory::kTileBytes,
                              memory + Block::kSpots + team.index * kSpotBytes<Kind>});
    Turning turning =
        near_turning<kDim, Kind>(call.k_turning, call.k_frequencies,
                                 near_tokens(task, task.sequence.k_width), memory + Block::kTurns);
    __syncthreads();
    wait_for_turns(turning);
    let_next_begin();
    pass.run(turning, task, ones, sums + team.index * (Memory::kTileBytes / 4));
    add_teams<kDim, Block::kThreads>(sums, kTeams, Memory::kTileBytes / 4);
  } else {  // the last cluster of a head may have more blocks than parts
    for (int i = threadIdx.x; i < kStateSize<kDim>; i += blockDim.x) sums[i] = 0.0f;
    wait_for_previous();
    let_next_begin();
    __syncthreads();
  }
  write_cluster_sums<kDim, Block::kThreads>(sums, call.parts, task.slot);
#else
  __trap();  // never launched there
#endif
}

}  // namespace mala::gpu::hopper
