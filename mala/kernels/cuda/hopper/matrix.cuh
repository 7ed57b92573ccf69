// Matrices of a head in shared memory, in two parts of bfloat16, as right sides of products.
#pragma once

#include "mala/kernels/cuda/head.cuh"
#include "mala/kernels/cuda/hopper/wgmma.cuh"
#include "mala/kernels/cuda/task.cuh"

namespace mala::gpu::hopper {

// A lane has, of the rows of its results, the eight columns from 8 t on of each block of 32. So
// pairs of columns 8 apart stand together in a unit of a right side; this is the first of them.
__device__ __forceinline__ int first_column(int unit) { return unit / 4 * 32 + unit % 4 * 2; }
// The same for left sides from registers: the feature that place `k` of the sum has.
__device__ __forceinline__ int feature_at(int k) {
  const int step = k / 16, place = k % 16, t = place % 8 / 2;
  return step / 2 * 32 + 8 * t + step % 2 * 4 + place / 8 * 2 + place % 2;
}

constexpr int kRowThreads = 128, kRowTokens = 64;  // of passes over rows: a warpgroup, its tiles

// (kDim, kDim) as panels of kDim rows, the rest of all behind the first parts of all.
template <int kDim>
struct Matrix {
  static constexpr int kPanels = HeadAccumulator<kDim>::kPanels;
  static constexpr int kPanelBytes = kDim * kPanelRowBytes, kPartBytes = kPanels * kPanelBytes;
  static constexpr int kBytes = 2 * kPartBytes, kSteps = kDim / kStepRows;

  uint32_t address;

  // By all threads of the block: two_at(k, unit, pair) are the numbers of a pair. Threads that
  // follow each other have rows that do, or units of a row.
  template <bool kRowsFollow, class Two>
  __device__ __forceinline__ void fill(Two two_at) const {
#pragma unroll 2
    for (int i = threadIdx.x; i < kDim * kDim / 8; i += kRowThreads) {
      const int k = kRowsFollow ? i % kDim : i / (kDim / 8);
      const int unit = kRowsFollow ? i / kDim : i % (kDim / 8);
      uint32_t first[4], rest[4];
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        const float2 numbers = two_at(k, unit, pair);
        const TwoParts two(numbers.x, numbers.y);
        first[pair] = two.first;
        rest[pair] = two.rest;
      }
      const uint32_t at = address + unit / 8 * kPanelBytes + in_panel(k, unit % 8);
      store_shared(at, {first[0], first[1], first[2], first[3]});
      store_shared(at + kPartBytes, {rest[0], rest[1], rest[2], rest[3]});
    }
  }
  __device__ __forceinline__ uint64_t panels() const { return panel(address); }
  // Of what panels() gave: rows 16 * step and on.
  static __device__ __forceinline__ uint64_t at(uint64_t panels, int step, int index, int part) {
    return moved(panels,
                 step * kStepRows * kPanelRowBytes + index * kPanelBytes + part * kPartBytes);
  }
};

// Left sides from registers, in two parts: of each block of 32 columns a lane's eights of rows g
// and g + 8.
template <int kDim>
struct LeftParts {
  static constexpr int kSteps = kDim / kStepRows;
  LeftFragment first[kSteps], rest[kSteps];

  __device__ __forceinline__ void set(int block, const Eight& upper, const Eight& lower) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // pairs of an eight: two for each step
      const int step = 2 * block + i / 2, at = i % 2 * 2;
      const TwoParts a(upper.x[2 * i], upper.x[2 * i + 1]);
      const TwoParts b(lower.x[2 * i], lower.x[2 * i + 1]);
      first[step].rows[at] = a.first;
      first[step].rows[at + 1] = b.first;
      rest[step].rows[at] = a.rest;
      rest[step].rows[at + 1] = b.rest;
    }
  }
};

// to = left * matrix, all but what would vanish: the product of both rests.
template <int kDim>
__device__ __forceinline__ void multiply(HeadAccumulator<kDim>& to, const LeftParts<kDim>& left,
                                         uint64_t matrix) {
  using M = Matrix<kDim>;
#pragma unroll
  for (int step = 0; step < M::kSteps; ++step) {
#pragma unroll
    for (int p = 0; p < M::kPanels; ++p) {
      to.multiply_panel(p, left.rest[step], M::at(matrix, step, p, 0), step > 0);
      to.multiply_panel(p, left.first[step], M::at(matrix, step, p, 1), true);
      to.multiply_panel(p, left.first[step], M::at(matrix, step, p, 0), true);
    }
  }
}
// to = rows * matrix, of 64 rows of bfloat16 in panels of `panel_bytes`.
template <int kDim>
__device__ __forceinline__ void multiply_rows(HeadAccumulator<kDim>& to, uint64_t rows,
                                              int panel_bytes, uint64_t matrix) {
  using M = Matrix<kDim>;
  constexpr int kStepBytes = kStepRows * 2;
#pragma unroll
  for (int step = 0; step < M::kSteps; ++step) {
    const uint64_t left = moved(rows, step / 4 * panel_bytes + step % 4 * kStepBytes);
#pragma unroll
    for (int p = 0; p < M::kPanels; ++p) {
      to.multiply_rows(p, left, M::at(matrix, step, p, 1), step > 0);
      to.multiply_rows(p, left, M::at(matrix, step, p, 0), true);
    }
  }
}

// A unit of two panels, of first parts and of what they left.
__device__ __forceinline__ void store_parts(uint32_t to_first, uint32_t to_rest, const Eight& x,
                                            bool exists = true) {
  uint32_t first[4], rest[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const TwoParts two(x.x[2 * i], x.x[2 * i + 1]);
    first[i] = exists ? two.first : 0;
    rest[i] = exists ? two.rest : 0;
  }
  store_shared(to_first, {first[0], first[1], first[2], first[3]});
  store_shared(to_rest, {rest[0], rest[1], rest[2], rest[3]});
}

// Of a result, row g + 8 * half.
template <int kDim>
__device__ __forceinline__ Eight eight_of(const HeadAccumulator<kDim>& from, int half, int block) {
  Eight e;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    e.x[2 * j] = from.at(4 * block + j, half, 0);
    e.x[2 * j + 1] = from.at(4 * block + j, half, 1);
  }
  return e;
}

// S_c of a usual head, in rows of kDim: features of left sides from registers by columns of
// results.
template <int kDim>
__device__ __forceinline__ void fill_centred(const Matrix<kDim>& to, const float* state,
                                             const QueryVectors<kDim>& head) {
  to.template fill<false>([&](int k, int unit, int pair) -> float2 {
    const int row = feature_at(k);
    const auto* from = reinterpret_cast<const float2*>(state + row * kDim + first_column(unit));
    const auto* means = reinterpret_cast<const float2*>(head.value_mean + first_column(unit));
    const float2 s = from[4 * pair], mean = means[4 * pair];
    const float sum = head.rotated_sum[row];
    return {fmaf(-sum, mean.x, s.x), fmaf(-sum, mean.y, s.y)};
  });
}

constexpr int kAlign = 1024;  // of panels, asked for besides a kernel's bytes
__device__ __forceinline__ std::byte* aligned(std::byte* memory) {
  return memory + (kAlign - shared_address(memory) % kAlign) % kAlign;
}

// A lane's eights of rows g and g + 8 of tile after tile, on their way while others are worked on.
template <int kDim>
struct LaneRows {
  static constexpr int kBlocks = kDim / kBlockCols;
  const BFloat16* next;
  int64_t stride;
  int left;
  uint4 raw[2][kBlocks] = {};

  __device__ __forceinline__ LaneRows(const Rows<const BFloat16>& rows, const Task& task, int row)
      : next(rows.at(task.first + row, threadIdx.x % 4 * 8)),
        stride(rows.token_stride),
        left(static_cast<int>(task.end - task.first) - row) {}

  __device__ __forceinline__ void ask() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        if (8 * half >= left) continue;
        raw[half][block] =
            __ldg(reinterpret_cast<const uint4*>(next + 8 * half * stride + kBlockCols * block));
      }
    }
    next += kRowTokens * stride;
    left -= kRowTokens;
  }
  __device__ __forceinline__ Eight eight(int half, int block) const {
    return unpack<BFloat16>(raw[half][block]);
  }
};

// How kThreads threads share tiles of 64 rows: each has a unit of some of them.
template <int kDim, int kThreads>
struct TileShare {
  static constexpr int kUnits = kDim / 8;
  static constexpr int kRowsAtOnce = kThreads / kUnits >= 16 ? 16 : 8;
  static constexpr int kWorkers = kRowsAtOnce * kUnits, kPieces = kRowTokens / kRowsAtOnce;
  static constexpr int kPanels = HeadAccumulator<kDim>::kPanels;
  static constexpr int kPanelBytes = kRowTokens * kPanelRowBytes;
  static constexpr int kTileBytes = kPanels * kPanelBytes;
  static constexpr int kPieceBytes = kRowsAtOnce * kPanelRowBytes;

  static __device__ __forceinline__ bool works() { return threadIdx.x < kWorkers; }
  static __device__ __forceinline__ int unit() { return threadIdx.x % kUnits; }
  static __device__ __forceinline__ int row() { return threadIdx.x / kUnits; }
  // Of its first piece in a tile; others follow kPieceBytes apart.
  static __device__ __forceinline__ uint32_t place() {
    return unit() / 8 * kPanelBytes + in_panel(row(), unit() % 8);
  }
};

// Copies tile after tile of a part's rows into panels. What does not exist becomes zero and is not
// read.
template <int kDim, int kThreads>
struct TileCopier {
  using Share = TileShare<kDim, kThreads>;
  const BFloat16* next;
  int64_t stride;
  int left;

  __device__ __forceinline__ TileCopier(const Rows<const BFloat16>& rows, const Task& task)
      : next(rows.at(task.first + Share::row(), 8 * Share::unit())),
        stride(rows.token_stride),
        left(static_cast<int>(task.end - task.first) - Share::row()) {}

  __device__ __forceinline__ void copy(uint32_t tile) {
#pragma unroll
    for (int piece = 0; piece < Share::kPieces && Share::works(); ++piece) {
      const int rows = piece * Share::kRowsAtOnce;
      copy_async(tile + Share::place() + piece * Share::kPieceBytes, next + rows * stride,
                 rows < left);
    }
    next += kRowTokens * stride;
    left -= kRowTokens;
    commit_copies();
  }
};

}  // namespace mala::gpu::hopper
