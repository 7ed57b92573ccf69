// How the sums over a part's keys go from tile to tile in the causal forward on Hopper, where each
// tile is another team's: a chain of teams of a cluster. Who has received the sums before a tile
// adds the tile's own and hands them on. The next team is told of the matrix only when this tile's
// queries have met it: the team before may write to its place from then on.
#pragma once

#include "mala/kernels/cuda/causal_keys.cuh"
#include "mala/kernels/cuda/hopper/causal_tile_sums.cuh"
#include "mala/kernels/cuda/hopper/cluster.cuh"
#include "mala/kernels/cuda/hopper/mailbox.cuh"

namespace mala::gpu::hopper {

constexpr int kSweepTeams = kSweepTeamsOnHopper;

// Shared memory of a team: panels of a tile's keys, before and after they turn, in two parts each;
// what it receives: the matrix, (values, features) in float32, a panel for each 32 features; and
// for tiles in turn means as the right side of a product, and vectors; sums of each warp; how a
// tile's first position turns; barriers; rows that are no numbers; then panels of rows as they
// come, one of values, one of keys and queries in turn.
struct LinkPanels {
  static constexpr int kPlain = 0, kRotated = 2 * kTilePanelBytes, kMatrix = 4 * kTilePanelBytes;
  static constexpr int kMeans = 6 * kTilePanelBytes, kMeansBytes = 16 * kRowTokens;
  static constexpr int kVectors = kMeans + 2 * kMeansBytes, kVectorBytes = 64 * 4;
  static constexpr int kReceived = 4, kOfWarps = 2 * kReceived, kFirstTurns = kOfWarps + 4;
  static constexpr int kMailboxes = kVectors + (kFirstTurns + 2) * kVectorBytes;
  static constexpr int kBroken = kMailboxes + 2 * Mailbox::kBytes;
  static constexpr int kRaw =
      (kBroken + static_cast<int>(sizeof(BrokenRows)) + kAlign - 1) / kAlign * kAlign;
  static constexpr int kBytes = kRaw + 2 * kTilePanelBytes;

  uint32_t address;  // in the own block, or in the cluster

  __device__ __forceinline__ uint32_t raw(int index) const {
    return address + kRaw + index * kTilePanelBytes;
  }
  __device__ __forceinline__ uint32_t means(int turn) const {
    return address + kMeans + (turn & 1) * kMeansBytes;
  }
  __device__ __forceinline__ uint32_t received(int turn, int index) const {
    return address + kVectors + ((turn & 1) * kReceived + index) * kVectorBytes;
  }
  // What was received: the vectors, then the matrix. Every thread tells of what it has written.
  static constexpr int kWriters = kGroupThreads;
  __device__ __forceinline__ Mailbox vectors_box() const { return {address + kMailboxes}; }
  __device__ __forceinline__ Mailbox matrix_box() const {
    return {address + kMailboxes + Mailbox::kBytes};
  }
  // Of keys before and after they turn, of values about their centre, and that centre.
  __device__ __forceinline__ uint32_t keys(int turn) const { return received(turn, 0); }
  __device__ __forceinline__ uint32_t rotated_keys(int turn) const { return received(turn, 1); }
  __device__ __forceinline__ uint32_t values(int turn) const { return received(turn, 2); }
  __device__ __forceinline__ uint32_t centre(int turn) const { return received(turn, 3); }
  __device__ __forceinline__ uint32_t of_warp(int warp) const {
    return address + kVectors + (kOfWarps + warp) * kVectorBytes;
  }
  // Two of the columns, from the sums of all warps.
  __device__ __forceinline__ float2 sum_of_warps() const {
    float2 sum = {};
#pragma unroll
    for (int warp = 0; warp < 4; ++warp) {
      const float2 more = load_shared_two(of_warp(warp) + 8 * (threadIdx.x % 32));
      sum.x += more.x;
      sum.y += more.y;
    }
    return sum;
  }
  __device__ __forceinline__ uint32_t first_turns(int turn) const {
    return address + kVectors + (kFirstTurns + (turn & 1)) * kVectorBytes;
  }
  // Of the lane's column 2 t of its row g of values: that of column 8 j + 2 t + which is to be
  // found from there. A product takes columns 2 t and + 1 of each eight at places t and t + 4.
  __device__ __forceinline__ uint32_t of_lane(const TileLane& lane) const {
    return address + kMatrix + in_panel(lane.row(0), 0) + 4 * lane.t;
  }
  static __device__ __forceinline__ uint32_t at(uint32_t of_lane, int j, int half, int which) {
    return (of_lane ^ (2 * (j % 4) + which) << 4) + j / 4 * kTilePanelBytes +
           half * 8 * kPanelRowBytes;
  }
};

// to = rows * the matrix, which a team received. Its columns are those of values.
__device__ __forceinline__ void multiply_received(TileRows& to, const TileRows& rows,
                                                  const LinkPanels& panels) {
  const uint64_t matrix = panel(panels.address + LinkPanels::kMatrix);
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const LeftFragment left{
        {rows.at(j, 0, 0), rows.at(j, 1, 0), rows.at(j, 0, 1), rows.at(j, 1, 1)}};
    multiply<64>(to.c, left, moved(matrix, j / 4 * kTilePanelBytes + j % 4 * kFineStepRows * 4),
                 j > 0);
  }
}
// The left side of a * (values' sum) + b * centre, with numbers a and b of each row.
__device__ __forceinline__ LeftTwos left_of_means(const float (&a)[2], const float (&b)[2]) {
  const bool of_centre = threadIdx.x & 2;
  LeftTwos left{};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    left.at[half] = parts_of(of_centre ? b[half] : a[half]);
  }
  return left;
}
// That is added to `to`, where `means` are.
__device__ __forceinline__ void multiply_means(TileRows& to, const LeftTwos& left, uint32_t means) {
  const uint64_t right = uint64_t{(means & 0x3FFFFu) >> 4} | uint64_t{kNarrowGroupBytes >> 4} << 32;
  multiply<64, RightRows::kKept>(to.c, left, right);
}

// A link of the chain: what a team receives, and whom it writes to.
struct Link {
  TileLane lane;
  int index, of_all;        // links
  LinkPanels panels, next;  // the latter in the cluster
  bool is_far;              // the next team is of another block
  int next_turn;            // of the next team, less the own

  // The first link receives the sums before the part: none where there is nothing before it.
  __device__ __forceinline__ void begin(const StateLayout& layout, const float* sums) const {
    auto sum_at = [&](int64_t i) { return sums ? sums[i] : 0.0f; };
    const uint32_t to = panels.of_lane(lane);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int column = lane.column(i / 4) + i % 2, row = lane.row(i / 2 % 2);
      panels.matrix_box().store<false>(LinkPanels::at(to, i / 4, i / 2 % 2, i % 2),
                                       sum_at(column * 64 + row));
    }
    const float none[2] = {};
    float centre[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) centre[half] = sum_at(layout.values() + lane.row(half));
    write_means<false>(panels, panels.vectors_box(), 0, none, centre);
    if (lane.warp == 3) {
      const int pair = threadIdx.x % 32;
      auto two_at = [&](int64_t first) {
        return float2{sum_at(first + 2 * pair), sum_at(first + 2 * pair + 1)};
      };
      panels.vectors_box().store<false>(panels.keys(0) + 8 * pair, two_at(layout.keys()));
      panels.vectors_box().store<false>(panels.rotated_keys(0) + 8 * pair,
                                        two_at(layout.rotated_keys()));
    }
    panels.vectors_box().arrive<false>(0);
    panels.matrix_box().arrive<false>(0);
  }

  // Once the vectors before a tile are here: the centre that its own values are taken about, and
  // all after it, and the sum of all values up to there.
  __device__ __forceinline__ void find_centre(int turn, const TileKeys& keys,
                                              TileSums& tile) const {
    const auto before = static_cast<float>(keys.before), own = static_cast<float>(keys.own);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float &centre = tile.centre[half], &sum = tile.values.c[2 * half];
      const float old = centre_of(turn, half);
      float others = load_shared_float(panels.values(turn) + 4 * lane.row(half));
      centre = old;
      if (keys.moves_centre()) {
        centre = fmaf(fmaf(-own, old, sum) + others, nearly_inverse(before + own), old);
        others = fmaf(-before, centre - old, others);
      }
      sum = fmaf(-own, centre, sum) + others;
    }
  }
  // The vectors before the next tile.
  __device__ __forceinline__ void pass_vectors(int turn, const TileSums& tile) const {
    if (is_far) {
      pass_vectors<true>(turn, tile);
    } else {
      pass_vectors<false>(turn, tile);
    }
  }

  // The matrix that is here now, as products leave such.
  __device__ __forceinline__ TileRows received() const {
    TileRows matrix;
    const uint32_t from = panels.of_lane(lane);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      matrix.c[i] = load_shared_float(LinkPanels::at(from, i / 4, i / 2 % 2, i % 2));
    }
    return matrix;
  }
  // About another centre.
  __device__ __forceinline__ void move_centre(int turn, const float (&to)[2],
                                              TileRows& matrix) const {
    const float by[2] = {to[0] - centre_of(turn, 0), to[1] - centre_of(turn, 1)};
    const uint32_t keys = panels.rotated_keys(turn) + 8 * lane.t;
    take_centre_off(matrix, by, [&](int j) { return load_shared_two(keys + 32 * j); });
  }
  // That before the next tile: to be told of when nobody of the warp reads what is here any more.
  __device__ __forceinline__ void pass_matrix(const TileRows& matrix) const {
    if (is_far) {
      pass_matrix<true>(matrix);
    } else {
      pass_matrix<false>(matrix);
    }
  }
  __device__ __forceinline__ void tell_of_matrix() const {
    if (is_far) {
      next.matrix_box().arrive<true>(sizeof(TileRows));
    } else {
      next.matrix_box().arrive<false>(0);
    }
  }

 private:
  __device__ __forceinline__ float centre_of(int turn, int half) const {
    return load_shared_float(panels.centre(turn) + 4 * lane.row(half));
  }
  template <bool kFar>
  __device__ __forceinline__ void pass_vectors(int turn, const TileSums& tile) const {
    const int of_turn = turn + next_turn;
    const float values[2] = {tile.values.c[0], tile.values.c[2]};
    write_means<kFar>(next, next.vectors_box(), of_turn, values, tile.centre);
    if (lane.warp == 3) {
      const uint32_t place = 8 * (threadIdx.x % 32);
      auto pass = [&](uint32_t from, uint32_t to, const float2& more) {
        const float2 two = load_shared_two(from + place);
        next.vectors_box().store<kFar>(to + place, float2{two.x + more.x, two.y + more.y});
      };
      pass(panels.keys(turn), next.keys(of_turn), tile.keys);
      pass(panels.rotated_keys(turn), next.rotated_keys(of_turn), tile.rotated_keys);
    }
    const int of_means = lane.t == 0 ? 2 * 16 : lane.t < 3 ? 2 * 4 : 0;
    next.vectors_box().arrive<kFar>(of_means + (lane.warp == 3 ? 2 * 8 : 0));
  }
  template <bool kFar>
  __device__ __forceinline__ void pass_matrix(const TileRows& matrix) const {
    const uint32_t to = next.of_lane(lane);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      next.matrix_box().store<kFar>(LinkPanels::at(to, i / 4, i / 2 % 2, i % 2), matrix.c[i]);
    }
  }

  // By each warp those of its rows.
  template <bool kFar>
  __device__ __forceinline__ void write_means(const LinkPanels& to, const Mailbox& tells, int turn,
                                              const float (&values)[2],
                                              const float (&centre)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = lane.row(half);
      if (lane.t == 0) {
        const TwoParts u(values[half], values[half]), c(centre[half], centre[half]);
        tells.store<kFar>(to.means(turn) + 16 * row, uint4{u.first, u.rest, c.first, c.rest});
      }
      if (lane.t == 1) tells.store<kFar>(to.values(turn) + 4 * row, values[half]);
      if (lane.t == 2) tells.store<kFar>(to.centre(turn) + 4 * row, centre[half]);
    }
  }
};

// The team's link of the chain that a cluster's teams are.
__device__ __forceinline__ Link link_of(const Cluster& cluster, const Team<kGroupThreads>& team,
                                        uint32_t memory) {
  const bool leaves = team.index + 1 == kSweepTeams,
             ends = leaves && cluster.rank + 1 == cluster.size;
  const bool is_far = leaves && cluster.size > 1;
  const int next = leaves ? 0 : team.index + 1;
  auto in_cluster = [&](uint32_t mine) {
    return is_far ? address_in_block(mine, ends ? 0 : cluster.rank + 1) : mine;
  };
  return {.lane = TileLane(team),
          .index = static_cast<int>(cluster.rank) * kSweepTeams + team.index,
          .of_all = static_cast<int>(cluster.size) * kSweepTeams,
          .panels = {memory + team.index * LinkPanels::kBytes},
          .next = {in_cluster(memory + next * LinkPanels::kBytes)},
          .is_far = is_far,
          .next_turn = ends ? 1 : 0};
}

}  // namespace mala::gpu::hopper
