// Tiles of causal sweeps on Hopper: where a lane stands in one, how its tokens turn, and its way
// from memory and back. Usual calls in bfloat16 with heads of 64 alone, which turn along a line or
// not at all.
//
// Tokens turn by their place in the tile, so that their turns are the same for all tiles. Sums that
// run along, as in the backward, turn by a tile's length from tile to tile; in the forward tokens
// turn by their tile's first position, too.
#pragma once

#include "mala/kernels/cuda/feature.cuh"
#include "mala/kernels/cuda/hopper/fragments.cuh"
#include "mala/kernels/cuda/hopper/sum_keys.cuh"

namespace mala::gpu::hopper {

// The part of one team: its index goes over all heads, then over their parts.
struct SweepPart {
  unsigned head;
  int64_t part;
};
__device__ __forceinline__ SweepPart sweep_part(unsigned heads, int teams, int team) {
  const unsigned index = blockIdx.x * teams + team;
  return {index % heads, index / heads};
}
// Where the sums before a part are, and their gradients after it.
__device__ __forceinline__ int64_t sweep_slot(const Call<BFloat16>& call, const Task& task,
                                              int64_t part) {
  const Sequence& sequence = task.sequence;
  return sequence.q_parts_before * call.kv_heads + task.kv_head * sequence.q_parts + part;
}

// The thread's number, asked for here: what follows from it need not be kept since it was asked for
// before.
__device__ __forceinline__ unsigned thread_again() {
  unsigned thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// A lane of a sweep: where it stands in a tile.
struct TileLane {
  int warp, g, t;
  WarpPlaces places;

  __device__ __forceinline__ explicit TileLane(const Team<kGroupThreads>& team)
      : TileLane(__shfl_sync(~0u, team.thread / 32, 0), team.thread) {}
  __device__ __forceinline__ TileLane(int of_warp, unsigned thread)
      : warp(of_warp),
        g(static_cast<int>(thread % 32 / 4)),
        t(static_cast<int>(thread % 4)),
        places(of_warp, thread) {}

  // Where registers are few, so that it lives no longer than it is needed.
  static __device__ __forceinline__ TileLane again(int of_warp) {
    return {of_warp, thread_again()};
  }

  __device__ __forceinline__ int row(int half) const { return 16 * warp + g + 8 * half; }
  __device__ __forceinline__ int column(int j) const { return 8 * j + 2 * t; }
};

// How the rows of a tile turn, in shared memory: each lane finds its own side by side. Behind them
// how sums turn from one tile to the next.
template <class Kind>
struct TileTurns {
  static constexpr int kPairs = 32, kRowBytes = kRowTokens * kPairs * 8;
  static constexpr int kBytes = Kind::kTurns ? kRowBytes + kPairs * 8 : 0;
  uint32_t own, step;

  __device__ __forceinline__ TileTurns(uint32_t table, const Team<kGroupThreads>& team)
      : own(table + 16 * team.thread), step(table + kRowBytes) {}

  __device__ __forceinline__ float2 of_tile(int pair) const {
    return load_shared_two(step + 8 * pair);  // here, and not once for all tiles
  }

  // By all threads of the block, from the table of the first positions.
  static __device__ __forceinline__ void fill(const Turning& turning, uint32_t table) {
    const auto* from = reinterpret_cast<const float2*>(turning.rests);
    if (threadIdx.x < kPairs / 2) {
      const auto two = reinterpret_cast<const uint4*>(from + kRowTokens * kPairs)[threadIdx.x];
      store_shared(table + kRowBytes + 16 * threadIdx.x, two);
    }
    for (int i = threadIdx.x; i < kRowBytes / 16; i += blockDim.x) {
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

// What all teams of a block share: a triangle of ones, and how tokens turn.
struct SweepTables {
  uint32_t triangle, turns;

  // By all threads of the block, which then wait for each other.
  template <class Kind>
  __device__ __forceinline__ void fill(const Call<BFloat16>& call) const {
    fill_triangle(triangle);
    if (Kind::kTurns) TileTurns<Kind>::fill(call.q_turning, turns);
    show_to_tensor_cores();
    __syncthreads();
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

// How the lanes of a warp share the units of its 16 rows: each has one of every fourth row.
struct UnitShare {
  int row, unit;
  uint32_t first;  // place

  __device__ __forceinline__ explicit UnitShare(int warp, unsigned thread = threadIdx.x)
      : row(16 * warp + static_cast<int>(thread % 32 / 8)),
        unit(static_cast<int>(thread % 8)),
        first(in_panel(row, unit)) {}

  static __device__ __forceinline__ UnitShare again(int warp) {
    return UnitShare(warp, thread_again());
  }

  // Four rows further on a unit has changed places with the fourth from it.
  __device__ __forceinline__ uint32_t place(int i) const {
    return (first ^ i % 2 * 4 << 4) + i * 4 * kPanelRowBytes;
  }
};

// A lane's first unit of the rows of a tile.
struct TileSource {
  const BFloat16* next;

  __device__ __forceinline__ TileSource(const Rows<const BFloat16>& rows, int64_t first,
                                        const UnitShare& share)
      : next(rows.at(first + share.row, 8 * share.unit)) {}

  // A tile begins its way to a panel, `left` rows of it: each warp copies what it has itself.
  __device__ __forceinline__ void copy(int64_t stride, int left, const UnitShare& share,
                                       uint32_t panel) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      copy_async(panel + share.place(i), next + 4 * i * stride, share.row + 4 * i < left);
    }
  }
  __device__ __forceinline__ void go_on(int tokens, int64_t stride) { next += tokens * stride; }
};
// Of tile after tile, or back.
template <bool kBack = false>
struct RowStream : TileSource {
  using TileSource::TileSource;

  __device__ __forceinline__ void copy(int64_t stride, int left, const UnitShare& share,
                                       uint32_t panel) {
    TileSource::copy(stride, left, share, panel);
    go_on(kBack ? -kRowTokens : kRowTokens, stride);
  }
};

// Features of the rows of a panel; those from `end` on are zero.
__device__ __forceinline__ TileRows tile_features(uint32_t panel, const TileLane& lane, int end) {
  constexpr uint32_t kNone = 0xFF80FF80u;  // whose features are
  TileRows x;
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    LeftTwos raw = load_matrices(panel + lane.places.at(step));
    if (end < kRowTokens) {
#pragma unroll
      for (int i = 0; i < 4; ++i) raw.at[i] = lane.row(i % 2) < end ? raw.at[i] : kNone;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 two = elu1_of_two(raw.at[i]);
      x.c[pair_of(step, i)] = two.x;
      x.c[pair_of(step, i) + 1] = two.y;
    }
  }
  return x;
}

// x times the slopes of the features of such rows: made again, since no registers would keep them.
__device__ __forceinline__ void multiply_slopes(TileRows& x, uint32_t panel, const TileLane& lane) {
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    TileRows raw;
    unpack(load_matrices(panel + lane.places.at(step)), step, raw);
#pragma unroll
    for (int i = 8 * step; i < 8 * step + 8; ++i) {
      x.c[i] *= smaller(exponential<BFloat16>(raw.c[i]), 1.0f);
    }
  }
}

// Where the rows of a tile go: a lane's first unit, and how many there are from its first on.
struct RowsOut {
  BFloat16* to;
  int64_t stride;
  int left;
};
// Rows of a tile to memory, by way of the warp's own rows of a panel, so that they leave as a
// whole.
__device__ __forceinline__ void write_rows(const TileRows& x, const TileLane& lane,
                                           const UnitShare& share, uint32_t stage,
                                           const RowsOut& out) {
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    LeftTwos twos;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = pair_of(step, i);
      twos.at[i] = pack<BFloat16>(x.c[at], x.c[at + 1]);
    }
    store_matrices(stage + lane.places.at(step), twos);
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint4 unit = load_shared(stage + share.place(i));
    if (share.row + 4 * i >= out.left) continue;
    *reinterpret_cast<uint4*>(out.to + 4 * i * out.stride) = unit;
  }
  __syncwarp();
}

// Calls body(step) for the steps of 16 columns up to the one on the diagonal of a warp's rows.
template <class Body>
__device__ __forceinline__ void for_steps_up_to(int warp, Body body) {
  body(std::integral_constant<int, 0>{});
  if (warp >= 1) body(std::integral_constant<int, 1>{});
  if (warp >= 2) body(std::integral_constant<int, 2>{});
  if (warp >= 3) body(std::integral_constant<int, 3>{});
}
// Or from that one on.
template <class Body>
__device__ __forceinline__ void for_steps_from(int warp, Body body) {
  if (warp <= 0) body(std::integral_constant<int, 0>{});
  if (warp <= 1) body(std::integral_constant<int, 1>{});
  if (warp <= 2) body(std::integral_constant<int, 2>{});
  body(std::integral_constant<int, 3>{});
}

// Of the step on the diagonal, whose numbers begin at kFirst: those of columns beyond the row's
// own, or before it, become zero.
template <int kFirst, bool kBefore = false>
__device__ __forceinline__ void clear_unseen(TileRows& x, const TileLane& lane) {
  asm volatile("" ::"n"(kFirst));  // or steps would become one, and no registers would hold it
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = lane.g + i / 2 % 2 * 8, column = i / 4 * 8 + 2 * lane.t + i % 2;
    if (kBefore ? column < row : column > row) x.c[kFirst + i] = 0.0f;
  }
}

// Shared memory of a team: panels of the rows that a tile sums over, before and after they turn,
// and of the matrix, in two parts each; a narrow panel; vectors; then panels of rows as they come.
struct SweepPanels {
  static constexpr int kPlain = 0, kRotated = 2 * kTilePanelBytes, kMatrix = 4 * kTilePanelBytes;
  static constexpr int kNarrow = 6 * kTilePanelBytes;
  static constexpr int kVectors = kNarrow + 16 * kRowTokens, kVectorBytes = 64 * 4;
  static constexpr int kRaw = kVectors + 8 * kVectorBytes;
  static_assert(kRaw % kAlign == 0);
  static constexpr int bytes(int raw_panels) { return kRaw + raw_panels * kTilePanelBytes; }

  std::byte* memory;
  uint32_t address;

  __device__ __forceinline__ explicit SweepPanels(std::byte* at)
      : memory(at), address(shared_address(at)) {}

  __device__ __forceinline__ uint32_t raw(int index) const {
    return address + kRaw + index * kTilePanelBytes;
  }
  __device__ __forceinline__ float* vector(int index) const {
    return reinterpret_cast<float*>(memory + kVectors) + 64 * index;
  }
  // Of all tokens before a tile, or after it: for tiles in turn.
  __device__ __forceinline__ float* key_sum(int tile) const { return vector(tile & 1); }
  __device__ __forceinline__ float* rotated_sum(int tile) const { return vector(2 + (tile & 1)); }
};

// A vector is added to all rows.
__device__ __forceinline__ void add_vector(TileRows& to, const float* vector) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float2 two = two_of(vector, j);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      to.at(j, half, 0) += two.x;
      to.at(j, half, 1) += two.y;
    }
  }
}

// A lane's row of `from` becomes a vector: by the four lanes that have it.
__device__ __forceinline__ void keep_row(const TileRows& from, int half, const TileLane& lane,
                                         float* to) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    *reinterpret_cast<float2*>(to + lane.column(j)) = {from.at(j, half, 0), from.at(j, half, 1)};
  }
}

// Sums of keys with values, (values, features), become those with values about a centre, which the
// lane's rows have: key_of(j) is the sum of as many keys, the lane's columns 8 j + 2 t and + 1.
template <class KeyOf>
__device__ __forceinline__ void take_centre_off(TileRows& sums, const float (&centre)[2],
                                                KeyOf key_of) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float2 key = key_of(j);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sums.at(j, half, 0) = fmaf(-centre[half], key.x, sums.at(j, half, 0));
      sums.at(j, half, 1) = fmaf(-centre[half], key.y, sums.at(j, half, 1));
    }
  }
}
// What another lane of the warp has of a vector, of which each lane has a pair.
__device__ __forceinline__ float2 pair_of_warp(const float2& pairs, int pair) {
  return {__shfl_sync(~0u, pairs.x, pair), __shfl_sync(~0u, pairs.y, pair)};
}

// The columns of sums turn by a tile's length.
template <bool kBack, class Kind>
__device__ __forceinline__ void turn_columns(TileRows& sums, const TileTurns<Kind>& turns,
                                             const TileLane& lane) {
#pragma unroll
  for (int j = 0; j < 8 && Kind::kTurns; ++j) {
    const float2 turn = turns.of_tile(4 * j + lane.t);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      rotate_pair<kBack>(sums.at(j, half, 0), sums.at(j, half, 1), turn.x, turn.y);
    }
  }
}

}  // namespace mala::gpu::hopper
