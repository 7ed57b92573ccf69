// Sums of the parts of a causal call on Hopper: of keys with their values, and of queries, by their
// weights, with the gradients of their outputs.
#pragma once

#include "mala/kernels/cuda/causal_keys.cuh"
#include "mala/kernels/cuda/hopper/causal_tile.cuh"

namespace mala::gpu::hopper {

// The weights of a lane's two tokens.
struct LaneWeights {
  SweepWeights of[2];

  // `weights` are those of the tile's first token, which has `left` from it on.
  __device__ __forceinline__ void load(const SweepWeights* weights, const TileLane& lane,
                                       int left) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = lane.row(half);
      float4 four = {};
      if (row < left) four = __ldg(reinterpret_cast<const float4*>(weights + row));
      of[half] = {four.x, four.y, four.z, four.w};
    }
  }
};

// Shared memory of a team: features in two parts, twice; values, twice; rows as they come, twice;
// narrow panels, twice; sums of features, twice.
struct SumPanels {
  static constexpr int kValues = 4 * kTilePanelBytes, kComing = 6 * kTilePanelBytes;
  static constexpr int kNarrow = 8 * kTilePanelBytes, kNarrowBytes = 16 * kRowTokens;
  static constexpr int kSums = kNarrow + 2 * kNarrowBytes, kSumBytes = 64 * 4;
  static constexpr int kBytes = kSums + kAlign;
  static_assert(2 * kSumBytes <= kAlign);

  uint32_t address;

  __device__ __forceinline__ uint32_t features(int tile) const {
    return address + (tile & 1) * 2 * kTilePanelBytes;
  }
  __device__ __forceinline__ uint32_t values(int tile) const {
    return address + kValues + (tile & 1) * kTilePanelBytes;
  }
  __device__ __forceinline__ uint32_t coming(int tile) const {
    return address + kComing + (tile & 1) * kTilePanelBytes;
  }
  __device__ __forceinline__ uint32_t narrow(int tile) const {
    return address + kNarrow + (tile & 1) * kNarrowBytes;
  }
  __device__ __forceinline__ uint32_t sums(int tile) const {
    return address + kSums + (tile & 1) * kSumBytes;
  }
};

// The panels of each team, of which there are at most so many, and turns for all of them.
constexpr int kMostSumTeams = kSweepTeamsOnHopper;
template <class Kind>
struct SumBlockOfSweeps {
  static constexpr int kTurns = kMostSumTeams * SumPanels::kBytes;
  static constexpr int kBytes = kTurns + TileTurns<Kind>::kBytes;
  static_assert(kBytes <= kSharedBytes);
};

// Of keys every weight is one, and values are taken about the mean of the first tile's, until the
// end: what they have in common would cost digits.
template <class Kind, bool kOfQueries>
struct CausalSums {
  const Call<BFloat16>& call;
  const Task& task;
  const Team<kGroupThreads>& team;
  SumPanels panels;
  TileLane lane;
  TileTurns<Kind> turns;
  UnitShare share;
  RowStream<> rows, values;
  int left;       // tokens from the tile's first on
  int count = 0;  // tokens whose sums are here
  const SweepWeights* weights = nullptr;
  LaneWeights of_lane = {};
  TileRows matrix = {};                             // (values, features)
  Accumulator<8> values_of_tile, features_of_tile;  // by their weights
  float value_sums[2] = {}, centre[2] = {};         // of the lane's rows
  float plain[16] = {};                             // sums over the lane's rows of its columns
  float2 rotated = {};                              // sums of a pair of columns

  __device__ __forceinline__ CausalSums(const Call<BFloat16>& of, const Task& part,
                                        const Team<kGroupThreads>& by, uint32_t memory,
                                        uint32_t table)
      : call(of),
        task(part),
        team(by),
        panels{memory},
        lane(by),
        turns(table, by),
        share(lane.warp),
        rows(of_rows(), part.first, share),
        values(of_values(), part.first, share),
        left(static_cast<int>(part.end - part.first)) {
    if (kOfQueries) weights = weights_of(of, part.sequence, part.head) + part.first;
    copy_rows(0, left);
    copy_values(0, left);
    copy_rows(1, left - kRowTokens);
    if (kOfQueries) of_lane.load(weights, lane, left);
  }

  // Leaves the sums in `to`.
  __device__ __forceinline__ void run(float* to) {
    stage(0);
    for (int tile = 0;; ++tile) {
      wait_copies<1>();  // for the values; rows come after them
      show_to_tensor_cores();
      team.sync();  // everyone's tile is here, and everyone is done with the one before
      if (tile > 0) {
        take_tile(tile - 1, kRowTokens);
        turn();
      }
      left -= kRowTokens;
      copy_values(tile + 1, left);
      add(tile);
      const bool is_last = left <= 0;
      if (!is_last) stage(tile + 1);
      wait_products();
      keep_features(tile);
      if (!is_last) continue;
      team.sync();
      take_tile(tile, left + kRowTokens);
      write(to, task.sequence.earlier + task.first + tile * kRowTokens);
      return;
    }
  }

 private:
  __device__ __forceinline__ Rows<const BFloat16> of_rows() const {
    return kOfQueries ? query_rows<Kind>(call.inputs.q, task, true)
                      : key_rows<Kind>(call.inputs.k, task, true);
  }
  __device__ __forceinline__ Rows<const BFloat16> of_values() const {
    return kOfQueries ? query_rows<Kind>(call.out_gradient, task, true)
                      : key_rows<Kind>(call.inputs.v, task, true);
  }
  __device__ __forceinline__ void copy_rows(int tile, int of) {
    rows.copy((kOfQueries ? call.inputs.q : call.inputs.k).token_stride, of, share,
              panels.coming(tile));
    commit_copies();
  }
  __device__ __forceinline__ void copy_values(int tile, int of) {
    values.copy((kOfQueries ? call.out_gradient : call.inputs.v).token_stride, of, share,
                panels.values(tile));
    commit_copies();
  }

  // Features by their weights become panels, and sums of the lane.
  __device__ __forceinline__ void stage(int tile) {
    wait_copies<2>();  // for the rows; their values and the next ones come after them
    __syncwarp();
    TileRows x = tile_features(panels.coming(tile), lane, kOfQueries ? kRowTokens : left);
    __syncwarp();
    copy_rows(tile, left - 2 * kRowTokens);
    add_columns(plain, x, of_lane.of[0].plain, of_lane.of[1].plain);
    turns.rotate(x);
    if (kOfQueries) {
#pragma unroll
      for (int i = 0; i < 32; ++i) x.c[i] *= of_lane.of[i / 2 % 2].product;
    }
    store_rows(panels.features(tile), lane.places, x);
    if (lane.t == 0) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const SweepWeights& w = of_lane.of[half];
        constexpr uint32_t kOne = 0x3F80u;  // and a zero
        const uint4 weights_of_row = kOfQueries ? uint4{parts_of(w.rotated), parts_of(w.mean), 0, 0}
                                                : uint4{kOne, kOne, kOne, kOne};
        store_shared(panels.narrow(tile) + 16 * lane.row(half), weights_of_row);
      }
    }
    if (kOfQueries) {
      weights += kRowTokens;
      of_lane.load(weights, lane, left - kRowTokens);
    }
  }

  static __device__ __forceinline__ void add_columns(float (&to)[16], const TileRows& x,
                                                     float upper, float lower) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const float a = x.c[4 * (i / 2) + i % 2], b = x.c[4 * (i / 2) + 2 + i % 2];
      to[i] = kOfQueries ? fmaf(a, upper, fmaf(b, lower, to[i])) : to[i] + (a + b);
    }
  }

  // A tile, with values as they are.
  __device__ __forceinline__ void add(int tile) {
    const uint64_t left_side = panel(panels.values(tile));
    const uint64_t right = panel(panels.features(tile));
    const uint64_t narrow = narrow_panel(panels.narrow(tile));
    begin_products();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const uint64_t v = step_of<RightRows::kSummed>(left_side, step);
      const uint64_t x = step_of<RightRows::kSummed>(right, step);
      const uint64_t by = moved(narrow, step * kStepRows * 16);
      multiply<64>(matrix.c, v, moved(x, kTilePanelBytes), true);
      multiply<64>(matrix.c, v, x, true);
      multiply<8>(values_of_tile.c, v, by, step > 0);
      multiply<8>(features_of_tile.c, moved(x, kTilePanelBytes), by, step > 0);
      multiply<8>(features_of_tile.c, x, by, true);
    }
    commit_products();
  }
  // The sums of a tile's features, which lanes have by rows, become a vector.
  __device__ __forceinline__ void keep_features(int tile) const {
    if (lane.t > 0) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      store_shared_float(panels.sums(tile) + 4 * lane.row(half),
                         two_columns(features_of_tile, half));
    }
  }
  static __device__ __forceinline__ float two_columns(const Accumulator<8>& of, int half) {
    return of.at(0, half, 0) + of.at(0, half, 1);
  }

  // After a tile with so many tokens, whose features everyone has kept.
  __device__ __forceinline__ void take_tile(int tile, int tokens) {
    count += tokens;
    float values[2] = {two_columns(values_of_tile, 0), two_columns(values_of_tile, 1)};
    if (!kOfQueries) {
      const auto keys = static_cast<float>(tokens);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (tile == 0) centre[half] = nearly_inverse(keys) * values[half];
        values[half] = fmaf(-keys, centre[half], values[half]);
      }
      const uint32_t sums = panels.sums(tile) + 8 * lane.t;
      take_centre_off(matrix, centre, [&](int j) { return load_shared_two(sums + 32 * j); });
    }
    value_sums[0] += values[0];
    value_sums[1] += values[1];
    const float2 more = load_shared_two(panels.sums(tile) + 8 * (threadIdx.x % 32));
    rotated.x += more.x;
    rotated.y += more.y;
  }
  // From a tile to the next one.
  __device__ __forceinline__ void turn() {
    turn_columns<true>(matrix, turns, lane);
    if (!Kind::kTurns) return;
    const float2 by = turns.of_tile(static_cast<int>(threadIdx.x % 32));
    rotate_pair<true>(rotated.x, rotated.y, by.x, by.y);
  }

  // Of values as they are.
  __device__ __forceinline__ void give_centre_back() {
    const float back[2] = {-centre[0], -centre[1]};
    take_centre_off(matrix, back, [&](int j) { return pair_of_warp(rotated, 4 * j + lane.t); });
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      value_sums[half] = fmaf(static_cast<float>(count), centre[half], value_sums[half]);
    }
  }
  // Turned as the first position of the last tile tells.
  __device__ __forceinline__ void write(float* to, int64_t position) {
    const StateLayout& layout = call.layout;
    const OneTurn turn(call.q_turning, Kind::kTurns ? position : 0);
    auto turned = [&](float& x, float& y, int pair) {
      if (!Kind::kTurns) return;
      const float2 by = turn.of(pair);
      rotate_pair<false>(x, y, by.x, by.y);
    };
    if (!kOfQueries) give_centre_back();
#pragma unroll
    for (int j = 0; j < 8; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float &x = matrix.at(j, half, 0), &y = matrix.at(j, half, 1);
        turned(x, y, 4 * j + lane.t);
        to[lane.column(j) * 64 + lane.row(half)] = x;
        to[lane.column(j) * 64 + 64 + lane.row(half)] = y;
      }
    }
    if (lane.t == 1) {
#pragma unroll
      for (int half = 0; half < 2; ++half) to[layout.values() + lane.row(half)] = value_sums[half];
    }
    if (lane.warp == 0) {
      const int pair = static_cast<int>(threadIdx.x % 32);
      turned(rotated.x, rotated.y, pair);
      *reinterpret_cast<float2*>(to + layout.rotated_keys() + 2 * pair) = rotated;
    }
    write_columns(plain, panels.features(0), to + layout.keys());
  }

  // The sum over all rows of the team.
  __device__ __forceinline__ void write_columns(float (&sums)[16], uint32_t stage, float* to) {
    team.sync();  // nobody reads features any more
    share_sums<8, 16>(sums);
    share_sums<4, 8>(sums);
    share_sums<2, 4>(sums);
    const uint32_t at = stage + 4 * (64 * lane.warp + lane.column(lane.g));
    store_shared_two(at, {sums[0], sums[1]});
    team.sync();
    if (team.thread >= 16) return;
    Four sum = {};
#pragma unroll
    for (int warp = 0; warp < 4; ++warp) {
      add_scaled(sum, 1.0f, load_shared_four<float>(stage + 4 * (64 * warp + 4 * team.thread)));
    }
    store_four(to + 4 * team.thread, sum);
  }
};

// One dimension: as many teams as all heads have parts.
template <class Kind, bool kOfQueries>
__global__ void __launch_bounds__(kMostSumTeams* kGroupThreads, 1)
    causal_sums_kernel(const __grid_constant__ Call<BFloat16> call, unsigned heads,
                       unsigned parts) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(kAlign) std::byte panels_of_block[];
  std::byte* memory = panels_of_block;
  using Block = SumBlockOfSweeps<Kind>;
  const Team<kGroupThreads> team;
  const uint32_t at = shared_address(memory), table = at + Block::kTurns;
  wait_for_previous();
  let_next_begin();
  if (Kind::kTurns) TileTurns<Kind>::fill(call.q_turning, table);
  __syncthreads();
  const SweepPart part = sweep_part(heads, blockDim.x / kGroupThreads, team.index);
  if (part.part >= parts) return;
  const Task task =
      kOfQueries ? query_task(call, part.head, part.part) : key_task(call, part.head, part.part);
  if (task.first == task.end) return;
  CausalSums<Kind, kOfQueries> sums(call, task, team, at + team.index * SumPanels::kBytes, table);
  sums.run(call.parts + task.slot * call.layout.size());
#else
  __trap();  // never launched there
#endif
}

}  // namespace mala::gpu::hopper
