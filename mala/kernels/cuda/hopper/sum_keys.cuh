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

// Where the turns of tokens are, two numbers of each: by row and by column, or, where tables are
// composed, of both. Twice, for the tile that comes next.
constexpr int kSpotBytes = 2 * 2 * kRowTokens * static_cast<int>(sizeof(int));

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

  __device__ __forceinline__ void write(int* to) {
    if (!Kind::kTurns || thread >= kRowTokens) return;
    const Spot spot = walk.spot(turning, left > 0);
    to[thread] = spot.row.rest;
    to[kRowTokens + thread] = Kind::kHow == Turned::kLine ? spot.row.block : spot.column.rest;
    walk.advance(turning);
    left -= step;
  }
};

// Entry `at` of a table, wherever it is.
__device__ __forceinline__ float2 turn_at(const Turn* table, int at) {
  float2 turn;
  asm("ld.v2.f32 {%0,%1}, [%2];" : "=f"(turn.x), "=f"(turn.y) : "l"(table + at));
  return turn;
}

// What becomes of a warpgroup's keys. A lane has one pair of features, of four tokens of sixteen,
// as products take them in from registers.
template <int kDim, class Kind>
struct KeyFeatures {
  using S = TileShare<kDim, kSumThreads<kDim>>;
  int pair, turn;  // and the place of its turns in a table, which has none for idle lanes
  bool works;
  const Turn *rests, *blocks;
  int spots;              // where among those of a tile the lane's first are
  uint32_t even, odd;     // rows 2 t and 2 t + 1 in a tile of keys
  float2 plain = {0, 0};  // sums before they turn

  __device__ __forceinline__ KeyFeatures(const Turning& by, int group)
      : rests(by.rests), blocks(by.blocks) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x % kGroupThreads / 32;
    const int t = lane % 4, of_panel = 8 * warp + lane / 4;
    pair = group * kPanelCols / 2 + of_panel;
    works = kDim % kPanelCols == 0 || pair < kDim / 2;
    turn = works ? pair : 0;
    const bool by_column = Kind::kHow != Turned::kLine && turn >= by.axis_pairs;
    spots = (by_column ? kRowTokens : 0) + 2 * t;
    const uint32_t panel = group * S::kPanelBytes + of_panel % 4 * 4;
    even = panel + in_panel(2 * t, of_panel / 4);
    odd = panel + in_panel(2 * t + 1, of_panel / 4);
  }

  // Of tokens 16 * step + 2 t and + 1, and of those 8 further on. `left` tokens of the tile exist.
  template <bool kWhole>
  __device__ __forceinline__ void find(uint32_t keys, const int* spots_of_tile, int step, int left,
                                       LeftTwos& first, LeftTwos& rest) {
    float2 phi[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = step * kStepRows + i / 2 * 8;  // of an even one
      phi[i] = elu1_of_two(load_shared_one(keys + (i % 2 ? odd : even) + row * kPanelRowBytes));
      if (!kWhole && row + static_cast<int>(threadIdx.x % 4) * 2 + i % 2 >= left) phi[i] = {0, 0};
      if (!Kind::kTurns) continue;
      plain.x += phi[i].x;
      plain.y += phi[i].y;
      const float2 turn = turn_of(spots_of_tile + row + i % 2);
      rotate_pair<false>(phi[i].x, phi[i].y, turn.x, turn.y);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = i / 2 * 2;
      const TwoParts two = i % 2 == 0 ? TwoParts(phi[token].x, phi[token + 1].x)
                                      : TwoParts(phi[token].y, phi[token + 1].y);
      first.at[i] = two.first;
      rest.at[i] = two.rest;
    }
  }

  __device__ __forceinline__ void write_plain(float* to) const {
    float2 sum = plain;
#pragma unroll
    for (int other = 1; other < 4; other *= 2) {
      sum.x += __shfl_xor_sync(~0u, sum.x, other);
      sum.y += __shfl_xor_sync(~0u, sum.y, other);
    }
    if (works && threadIdx.x % 4 == 0) *reinterpret_cast<float2*>(to + 2 * pair) = sum;
  }

 private:
  __device__ __forceinline__ float2 turn_of(const int* spot) const {
    const float2 a = turn_at(rests, spot[spots] + turn);
    if (Kind::kHow != Turned::kLine) return a;
    const float2 b = turn_at(blocks, spot[spots + kRowTokens] + turn);
    return {a.x * b.x - a.y * b.y, a.y * b.x + a.x * b.y};
  }
};

// The pass of one team over its tiles. Begins to copy as soon as it is made.
template <int kDim, class Kind>
struct SumPass {
  static constexpr int kThreads = kSumThreads<kDim>;
  using Memory = SumMemory<kDim>;

  Team<kThreads> team;
  Memory memory;
  int tiles, step;
  TileCopier<kDim, kThreads> values, keys;

  __device__ __forceinline__ SumPass(const Call<BFloat16>& call, const Task& task, int teams,
                                     const Memory& at)
      : memory(at),
        tiles(team.tiles(task, teams)),
        step(teams * kRowTokens),
        values(key_rows<Kind>(call.inputs.v, task, true), task, team),
        keys(key_rows<Kind>(call.inputs.k, task, true), task, team) {
    if (tiles > 0) {  // else its place is that of sums at once
      copy(0);
      fill_ones_inside(memory, team.thread);
    }
  }

  // Into a stage.
  __device__ __forceinline__ void copy(uint32_t stage) {
    keys.copy(memory.tiles + stage + Memory::kKeys, step);
    values.copy(memory.tiles + stage, step);
    commit_copies();
  }

  // All tiles, into `to`, which may lie where they do. `ones` are there already.
  __device__ __forceinline__ void run(const Turning& turning, const Task& task, uint32_t ones,
                                      float* to) {
    SpotWriter<Kind> spots(turning, task, team.index, team.thread, step);
    spots.write(memory.spots_of(0));
    const int group = __shfl_sync(~0u, static_cast<int>(team.thread / kGroupThreads), 0);
    KeyFeatures<kDim, Kind> features(turning, group);
    KeySums<kDim> sums(memory, ones, group);
    const int of_last = static_cast<int>(task.end - task.first) -
                        (team.index + (tiles - 1) * (step / kRowTokens)) * kRowTokens;
    const int whole = tiles - (of_last < kRowTokens ? 1 : 0);
    uint32_t stage = 0;
    auto begin = [&](int tile) {
      const uint32_t next = Memory::next(stage);
      if (Memory::kStages == 2) wait_products();
      wait_copies<0>();
      show_to_tensor_cores();
      team.sync();  // everyone's tile is here, and everyone is done with those of the next stage
      spots.write(memory.spots_of(tile + 1));
      return next;
    };
    for (int tile = 0; tile < whole; ++tile) {
      const uint32_t next = begin(tile);
      add<true>(features, sums, tile, stage, kRowTokens, next);
      stage = next;
    }
    wait_products();
    if (whole < tiles) {
      begin(whole);
      add<false>(features, sums, whole, stage, of_last, 0);
      wait_products();
    }
    team.sync();
    sums.write(to, Kind::kTurns);
    if (Kind::kTurns) features.write_plain(to + kDim * kDim);
  }

 private:
  // Loads would wait for copies that were asked for before them: the next tile's come after the
  // first of them.
  template <bool kWhole>
  __device__ __forceinline__ void add(KeyFeatures<kDim, Kind>& features, KeySums<kDim>& sums,
                                      int tile, uint32_t stage, int left, uint32_t next) {
#pragma unroll
    for (int step = 0; step < kRowTokens / kStepRows; ++step) {
      LeftTwos first, rest;
      features.template find<kWhole>(memory.tiles + stage + Memory::kKeys, memory.spots_of(tile),
                                     step, left, first, rest);
      if (step == 0 && tile + 1 < tiles) copy(next);
      sums.add(stage, step, first, rest);
      wait_products<1>();  // leaves registers to the next
    }
  }
};

// Shared memory of a block that only sums.
template <int kDim, int kTeams, class Kind>
struct SumBlock {
  using Memory = SumMemory<kDim>;
  static constexpr int kThreads = kTeams * kSumThreads<kDim>;
  static constexpr int kSpots = kTeams * Memory::kTileBytes;
  static constexpr int kOnes = kSpots + kTeams * kSpotBytes;
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
    SumPass<kDim, Kind> pass(
        call, task, kTeams,
        {shared_address(memory) + team.index * Memory::kTileBytes,
         reinterpret_cast<int*>(memory + Block::kSpots) + team.index * kSpotBytes / 4});
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
