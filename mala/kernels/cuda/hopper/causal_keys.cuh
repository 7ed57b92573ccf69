// What a causal sweep on Hopper knows of keys: those of a tile, and the sums before it, which run
// along. Usual calls in bfloat16 with heads of 64 alone, which turn along a line or not at all.
//
// Tokens turn by their place in the tile. So their turns are the same for all tiles, and the sums
// are turned back by a tile's length from tile to tile.
#pragma once

#include "mala/kernels/cuda/causal_keys.cuh"
#include "mala/kernels/cuda/hopper/fragments.cuh"
#include "mala/kernels/cuda/hopper/sum_keys.cuh"

namespace mala::gpu::hopper {

// A lane of a sweep: where it stands in a tile.
struct TileLane {
  int warp, g, t;
  WarpPlaces places;

  __device__ __forceinline__ explicit TileLane(const Team<kGroupThreads>& team)
      : warp(__shfl_sync(~0u, team.thread / 32, 0)),
        g(team.thread % 32 / 4),
        t(team.thread % 4),
        places(warp) {}

  __device__ __forceinline__ int row(int half) const { return 16 * warp + g + 8 * half; }
  __device__ __forceinline__ int column(int j) const { return 8 * j + 2 * t; }
};

// How the rows of a tile turn, in shared memory: each lane finds its own side by side.
template <class Kind>
struct TileTurns {
  static constexpr int kPairs = 32, kBytes = Kind::kTurns ? kRowTokens * kPairs * 8 : 0;
  uint32_t own;

  __device__ __forceinline__ TileTurns(uint32_t table, const Team<kGroupThreads>& team)
      : own(table + 16 * team.thread) {}

  // By all threads of the block, from the table of the first positions.
  static __device__ __forceinline__ void fill(const Turning& turning, uint32_t table) {
    const auto* from = reinterpret_cast<const float2*>(turning.rests);
    for (int i = threadIdx.x; i < kBytes / 16; i += blockDim.x) {
      const int thread = i % kGroupThreads, half = i / kGroupThreads / 4,
                jj = i / kGroupThreads % 4;
      const int row = thread / 32 * 16 + thread % 32 / 4 + 8 * half;
      const float2* at = from + row * kPairs + 8 * jj + thread % 4;
      const float2 a = __ldg(at), b = __ldg(at + 4);
      store_shared(table + 16 * i, {bits_of(a.x), bits_of(a.y), bits_of(b.x), bits_of(b.y)});
    }
  }

  template <bool kBack = false>
  __device__ __forceinline__ void rotate(TileRows& x) const {
    if constexpr (Kind::kTurns) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int half = i / 4, j = i % 4 * 2;
        const Four turns = load_shared_four<float>(own + 16 * kGroupThreads * i);
        rotate_pair<kBack>(x.at(j, half, 0), x.at(j, half, 1), turns.x[0], turns.x[1]);
        rotate_pair<kBack>(x.at(j + 1, half, 0), x.at(j + 1, half, 1), turns.x[2], turns.x[3]);
      }
    }
  }
};

// The turn of a position, of pairs 4 j + t or any others.
struct OneTurn {
  const float2 *rest, *block;

  // Far from the first: by two tables.
  __device__ __forceinline__ OneTurn(const Turning& turning, int64_t position) {
    const int row = static_cast<int>(position + turning.offset - turning.first_row);
    rest = reinterpret_cast<const float2*>(turning.rests) + row % kTurnBlock * 32;
    block = reinterpret_cast<const float2*>(turning.blocks) + row / kTurnBlock * 32;
  }
  __device__ __forceinline__ float2 of(int pair) const {
    const float2 a = __ldg(rest + pair), b = __ldg(block + pair);
    return {a.x * b.x - a.y * b.y, a.y * b.x + a.x * b.y};
  }
};
// From one tile to the next.
__device__ __forceinline__ float2 turn_of_tile(const Turning& turning, int pair) {
  return __ldg(reinterpret_cast<const float2*>(turning.rests) + kRowTokens * 32 + pair);
}

// How the lanes of a warp share the units of its 16 rows: each has one of every fourth row.
struct UnitShare {
  int row, unit;
  uint32_t even, odd;  // places of the first of them and of the next

  __device__ __forceinline__ explicit UnitShare(int warp)
      : row(16 * warp + static_cast<int>(threadIdx.x) % 32 / 8),
        unit(static_cast<int>(threadIdx.x) % 8),
        even(in_panel(row, unit)),
        odd(in_panel(row + 4, unit)) {}

  __device__ __forceinline__ uint32_t place(int i) const {
    return (i % 2 ? odd : even) + i / 2 * kPanelGroupBytes;
  }
};

// Rows of a tile begin their way to a panel, `left` of them: each warp copies what it has itself.
// `next` is the lane's first, and goes on to the next tile.
__device__ __forceinline__ void copy_rows(const BFloat16*& next, int64_t stride, int left,
                                          const UnitShare& share, uint32_t panel) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const bool exists = share.row + 4 * i < left;
    copy_async(panel + share.place(i), exists ? next + 4 * i * stride : next, exists);
  }
  next += kRowTokens * stride;
  commit_copies();
}

// Features of the rows of a panel; those from `end` on are zero.
__device__ __forceinline__ TileRows tile_features(uint32_t panel, const TileLane& lane, int end) {
  constexpr uint32_t kNone = 0xFF80FF80u;  // whose features are
  TileRows x;
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    LeftTwos raw = load_matrices(panel + lane.places.at[step]);
    if (end < kRowTokens) {
#pragma unroll
      for (int i = 0; i < 4; ++i) raw.at[i] = lane.row(i % 2) < end ? raw.at[i] : kNone;
    }
    unpack(raw, step, x);
  }
#pragma unroll
  for (int i = 0; i < 32; ++i) x.c[i] = elu1<BFloat16>(x.c[i]);
  return x;
}

// Shared memory of a team: panels of the tile's keys before and after they turn and of the matrix,
// in two parts each; of its values; of keys and queries in turn as they come; a row of the values'
// sum and of their centre; vectors, the former ones for tiles in turn.
struct SweepPanels {
  static constexpr int kPlain = 0, kRotated = 2 * kTilePanelBytes, kMatrix = 4 * kTilePanelBytes;
  static constexpr int kValues = 6 * kTilePanelBytes, kComing = 7 * kTilePanelBytes;
  static constexpr int kMeans = 8 * kTilePanelBytes;
  static constexpr int kVectors = kMeans + 64 * 16, kVectorBytes = 64 * 4;
  static constexpr int kBytes = kVectors + 8 * kVectorBytes;
  static_assert(kBytes % kAlign == 0);

  std::byte* memory;
  uint32_t address;

  __device__ __forceinline__ explicit SweepPanels(std::byte* at)
      : memory(at), address(shared_address(at)) {}

  __device__ __forceinline__ float* vector(int index) const {
    return reinterpret_cast<float*>(memory + kVectors) + 64 * index;
  }
  __device__ __forceinline__ float* key_sum(int tile) const { return vector(tile & 1); }
  __device__ __forceinline__ float* rotated_sum(int tile) const { return vector(2 + (tile & 1)); }
  __device__ __forceinline__ float* warp_sum(int warp) const { return vector(4 + warp); }
};

// The first row of a tile from which on nothing is a number: of all columns because of a key, or of
// one because of a value.
struct BrokenRows {
  int by_key, by_value[64];
};

// A key or value that is no number would reach earlier tokens of its tile, whose weight for it is
// zero: it is taken out, and remembered. By the whole team; whether there was one.
static __device__ __noinline__ bool take_out_broken(std::byte* keys, std::byte* values,
                                                    BrokenRows* broken, int thread, int barrier) {
  auto sync = [&] {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kGroupThreads) : "memory");
  };
  auto unit_at = [](std::byte* panel, int i) {
    return reinterpret_cast<uint16_t*>(panel + in_panel(i / 8, i % 8));
  };
  if (thread < 64) broken->by_value[thread] = kRowTokens;
  if (thread == 0) broken->by_key = kRowTokens;
  sync();
  bool found = false;
  for (int i = thread; i < 8 * kRowTokens; i += kGroupThreads) {
    const uint16_t* key = unit_at(keys, i);
    uint16_t* value = unit_at(values, i);
    for (int j = 0; j < 8; ++j) {
      const bool bad_key = (key[j] & 0x7F80u) == 0x7F80u && key[j] != 0xFF80u;
      if (bad_key) atomicMin(&broken->by_key, i / 8);
      const bool bad_value = (value[j] & 0x7F80u) == 0x7F80u;
      if (bad_value) atomicMin(&broken->by_value[i % 8 * 8 + j], i / 8);
      if (bad_value) value[j] = 0;
      found |= bad_key || bad_value;
    }
  }
  sync();
  for (int i = thread; i < 8 * kRowTokens; i += kGroupThreads) {
    if (i / 8 < broken->by_key) continue;
    uint16_t* key = unit_at(keys, i);
    for (int j = 0; j < 8; ++j) key[j] = 0xFF80u;
  }
  int any;
  asm volatile("{.reg .pred p, q; setp.ne.b32 p, %1, 0; bar.red.popc.u32 %0, %2, %3, p;}"
               : "=r"(any)
               : "r"(static_cast<int>(found)), "r"(barrier), "n"(kGroupThreads)
               : "memory");
  return any > 0;
}

// The sums over all keys before a tile. The matrix is held the other way round, (values, features),
// and values' sum is that of the part alone.
template <class Kind>
struct SweepState {
  const Turning& turning;
  TileLane lane;
  SweepPanels panels;
  TileRows matrix;
  Accumulator<8> values;
  float centre[2];  // of the lane's two rows
  int count = 0;    // of keys in the part

  // From the sums before the part, with the first position of the part.
  __device__ __forceinline__ void start(const float* from, const StateLayout& layout,
                                        int64_t position, const Team<kGroupThreads>& team) {
    const float* rotated = from + layout.rotated_keys();
    const OneTurn turn(turning, Kind::kTurns ? position : 0);
    if (team.thread < 64) panels.key_sum(0)[team.thread] = from[layout.keys() + team.thread];
    if (team.thread < 32) {
      float2 two = *reinterpret_cast<const float2*>(rotated + 2 * team.thread);
      turn_back(two, team.thread, [&](int pair) { return turn.of(pair); });
      reinterpret_cast<float2*>(panels.rotated_sum(0))[team.thread] = two;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) centre[half] = from[layout.values() + lane.row(half)];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int column = lane.column(j);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float2 two{from[column * 64 + lane.row(half)], from[column * 64 + 64 + lane.row(half)]};
        two.x = fmaf(centre[half], rotated[column], two.x);
        two.y = fmaf(centre[half], rotated[column + 1], two.y);
        turn_back(two, column / 2, [&](int pair) { return turn.of(pair); });
        matrix.at(j, half, 0) = two.x;
        matrix.at(j, half, 1) = two.y;
      }
    }
    values = {};
    team.sync();
    show(0);
  }

  // Keys and values of a tile, not waited for.
  __device__ __forceinline__ void add(uint32_t ones) {
    const uint64_t left = panel(panels.address + SweepPanels::kValues);
    const uint64_t right = panel(panels.address + SweepPanels::kRotated);
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const uint64_t v = step_of<RightRows::kSummed>(left, step);
      const uint64_t k = step_of<RightRows::kSummed>(right, step);
      multiply<64>(matrix.c, v, moved(k, kTilePanelBytes), true);
      multiply<64>(matrix.c, v, k, true);
      multiply<8>(values.c, v, narrow_panel(ones), true);
    }
    commit_products();
  }

  // After a tile with so many keys: the sums before tile `next`.
  __device__ __forceinline__ void go_on(int next, int keys) {
    count += keys;
    if (Kind::kTurns) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float2 turn = turn_of_tile(turning, 4 * j + lane.t);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          rotate_pair<true>(matrix.at(j, half, 0), matrix.at(j, half, 1), turn.x, turn.y);
        }
      }
    }
    show(next);
  }

  // By one warp: the sum of rotated keys before tile `next`, from those of the warps.
  __device__ __forceinline__ void add_rotated(int next) const {
    const int pair = threadIdx.x % 32;
    auto two = [&](const float* vector) { return reinterpret_cast<const float2*>(vector)[pair]; };
    float2 sum = two(panels.rotated_sum(next - 1));
#pragma unroll
    for (int warp = 0; warp < 4; ++warp) {
      const float2 more = two(panels.warp_sum(warp));
      sum.x += more.x;
      sum.y += more.y;
    }
    turn_back(sum, pair, [&](int of) { return turn_of_tile(turning, of); });
    reinterpret_cast<float2*>(panels.rotated_sum(next))[pair] = sum;
  }

 private:
  template <class TurnOf>
  static __device__ __forceinline__ void turn_back(float2& two, int pair, TurnOf turn_of) {
    if (!Kind::kTurns) return;
    const float2 turn = turn_of(pair);
    rotate_pair<true>(two.x, two.y, turn.x, turn.y);
  }

  // The matrix about the centre, and the values' sum about it, become right sides of products.
  __device__ __forceinline__ void show(int tile) const {
    const float* rotated = panels.rotated_sum(tile);
    TileRows centred;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float2 key = two_of(rotated, j);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        centred.at(j, half, 0) = fmaf(-centre[half], key.x, matrix.at(j, half, 0));
        centred.at(j, half, 1) = fmaf(-centre[half], key.y, matrix.at(j, half, 1));
      }
    }
    store_rows(panels.address + SweepPanels::kMatrix, lane.places, centred);
    if (lane.t > 0) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = fmaf(-static_cast<float>(count), centre[half], values.c[2 * half]);
      const TwoParts u(sum, sum), c(centre[half], centre[half]);
      store_shared(panels.address + SweepPanels::kMeans + 16 * lane.row(half),
                   {u.first, u.rest, c.first, c.rest});
    }
  }
};

// to += a * (values' sum) + b * centre, with numbers a and b of each row.
__device__ __forceinline__ void multiply_means(TileRows& to, const float (&a)[2],
                                               const float (&b)[2], uint32_t address) {
  const bool of_centre = threadIdx.x & 2;
  LeftTwos left{};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float x = of_centre ? b[half] : a[half], first = low_of<BFloat16>(pack<BFloat16>(x, x));
    left.at[half] = pack<BFloat16>(first, x - first);
  }
  constexpr int kPanel = SweepPanels::kMeans;
  const uint64_t right =
      uint64_t{((address + kPanel) & 0x3FFFFu) >> 4} | uint64_t{kNarrowGroupBytes >> 4} << 32;
  multiply<64, RightRows::kKept>(to.c, left, right);
}

}  // namespace mala::gpu::hopper
