// Blocks of several teams, each with tiles of its own, and the rows of tokens on their way to them.
#pragma once

#include "mala/kernels/cuda/hopper/wgmma.cuh"
#include "mala/kernels/cuda/shape.h"
#include "mala/kernels/cuda/task.cuh"

namespace mala::gpu::hopper {

constexpr int kGroupThreads = 128, kRowTokens = 64;  // of a warpgroup, and of a tile
constexpr int kAlign = 1024;                         // of panels, and of a block's memory

// One to three warpgroups. Team i of a block has tiles i, i + kTeams, ... Threads are
// counted without a sign, so that dividing by a power of two is one instruction.
template <int kThreads>
struct Team {
  int index;
  unsigned thread;

  // Taken from one lane, so that the compiler knows it to be the same for all.
  __device__ __forceinline__ Team()
      : index(__shfl_sync(~0u, static_cast<int>(threadIdx.x / kThreads), 0)),
        thread(threadIdx.x % kThreads) {}

  __device__ __forceinline__ void sync() const {
    asm volatile("bar.sync %0, %1;" ::"r"(index + 1), "n"(kThreads) : "memory");
  }
  // Whether it holds for one of the team, which waits for each other.
  __device__ __forceinline__ bool any(bool holds) const { return any_at(index + 1, holds); }
  static __device__ __forceinline__ bool any_at(int barrier, bool holds) {
    int count;
    asm volatile("{.reg .pred p; setp.ne.b32 p, %1, 0; bar.red.popc.u32 %0, %2, %3, p;}"
                 : "=r"(count)
                 : "r"(static_cast<int>(holds)), "r"(barrier), "n"(kThreads)
                 : "memory");
    return count > 0;
  }
  // The lane's first row of a tile, where lane (g, t) of warp w has rows 16 w + g and + 8.
  __device__ __forceinline__ int row() const {
    return static_cast<int>(thread / 32 * 16 + thread % 32 / 4);
  }
  // Of the tiles of a part.
  __device__ __forceinline__ int tiles(const Task& task, int teams) const {
    const int all = static_cast<int>(divide_up(task.end - task.first, kRowTokens));
    return (all - index + teams - 1) / teams;
  }
};

// Rows of tile after tile, from a row of the team's first tile on.
template <typename T>
struct RowCursor {
  T* next;
  int64_t stride;
  int left;  // rows from that one on

  __device__ __forceinline__ RowCursor(const Rows<T>& rows, const Task& task, int row, int column)
      : next(rows.at(task.first + row, column)),
        stride(rows.token_stride),
        left(static_cast<int>(task.end - task.first) - row) {}

  __device__ __forceinline__ bool exists(int row) const { return row < left; }
  __device__ __forceinline__ T* at(int row) const { return next + row * stride; }
  __device__ __forceinline__ void go_on(int step) {
    next += step * stride;
    left -= step;
  }
};

// Eight numbers to memory that nobody here reads. One instruction: what they are made of is not
// asked for only after a branch.
__device__ __forceinline__ void store_eight_if(bool exists, BFloat16* to, const Eight& e) {
  const uint4 raw = pack<BFloat16>(e);
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %5, 0; @p st.global.v4.b32 [%0], {%1,%2,%3,%4};}" ::"l"(to),
      "r"(raw.x), "r"(raw.y), "r"(raw.z), "r"(raw.w), "r"(static_cast<int>(exists)));
}

// How the threads of a team share the units of a tile: each has one of some of its rows, in pieces
// that are kRowsAtOnce rows apart.
template <int kDim, int kThreads>
struct TileShare {
  static constexpr int kUnits = kDim / 8, kFours = kUnits / 4, kMostRows = kThreads / kUnits;
  static constexpr int kRowsAtOnce = kMostRows >= 32 ? 32 : kMostRows >= 16 ? 16 : 8;
  static constexpr int kPieces = kRowTokens / kRowsAtOnce;
  static constexpr int kWorkers = kRowsAtOnce * kUnits;
  static constexpr int kPanels = HeadAccumulator<kDim>::kPanels;
  static constexpr int kPanelBytes = kRowTokens * kPanelRowBytes;
  static constexpr int kTileBytes = kPanels * kPanelBytes;
  static constexpr int kPieceBytes = kRowsAtOnce * kPanelRowBytes;

  unsigned thread;

  __device__ __forceinline__ bool works() const {
    return kWorkers == kThreads || thread < kWorkers;
  }
  // Eight threads, whose wide accesses are one, have four units of two rows: as far apart as panels
  // need it for other banks, and turns of neighbouring columns too.
  __device__ __forceinline__ int unit() const {
    return static_cast<int>(thread / 8 % kFours * 4 + thread % 4);
  }
  __device__ __forceinline__ int row() const {
    const unsigned two = thread / 8 / kFours, first = two / 4 * 8 + two % 4;
    return static_cast<int>(thread & 4 ? first ^ 5 : first);
  }
  // Of its first piece in panels; others follow kPieceBytes apart.
  __device__ __forceinline__ uint32_t place() const {
    return unit() / 8 * kPanelBytes + in_panel(row(), unit() % 8);
  }
};

// Copies tile after tile into panels. What does not exist becomes zero and is not read.
template <int kDim, int kThreads>
struct TileCopier {
  using Share = TileShare<kDim, kThreads>;
  Share share;
  RowCursor<const BFloat16> rows;

  __device__ __forceinline__ TileCopier(const Rows<const BFloat16>& from, const Task& task,
                                        const Team<kThreads>& team)
      : share{team.thread},
        rows(from, task, team.index * kRowTokens + share.row(), 8 * share.unit()) {}

  __device__ __forceinline__ void copy(uint32_t tile, int step) {
    static_assert(Share::kWorkers <= kThreads);
    const uint32_t first = tile + share.place();
#pragma unroll
    for (int piece = 0; piece < Share::kPieces && share.works(); ++piece) {
      const int row = piece * Share::kRowsAtOnce;
      copy_async(first + piece * Share::kPieceBytes, rows.at(row), rows.exists(row));
    }
    rows.go_on(step);
  }
};

// A lane's eights of rows g and g + 8 of tile after tile, by way of slots that only it reads.
template <int kDim>
struct LaneRows {
  static constexpr int kBlocks = kDim / kBlockCols;
  static constexpr int kSlotBytes = 2 * kBlocks * kGroupThreads * 16;
  uint32_t slots;
  RowCursor<const BFloat16> rows;

  __device__ __forceinline__ LaneRows(const Rows<const BFloat16>& from, const Task& task,
                                      const Team<kGroupThreads>& team, uint32_t memory)
      : slots(memory + 16 * team.thread),
        rows(from, task, team.index * kRowTokens + team.row(),
             static_cast<int>(team.thread % 4 * 8)) {}

  __device__ __forceinline__ void copy(int step) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const BFloat16* row = rows.at(8 * half);
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        copy_async(slot(half, block), row + kBlockCols * block, rows.exists(8 * half));
      }
    }
    rows.go_on(step);
  }
  __device__ __forceinline__ uint4 raw(int half, int block) const {
    return load_shared(slot(half, block));
  }

 private:
  __device__ __forceinline__ uint32_t slot(int half, int block) const {
    return slots + (half * kBlocks + block) * kGroupThreads * 16;
  }
};

}  // namespace mala::gpu::hopper
