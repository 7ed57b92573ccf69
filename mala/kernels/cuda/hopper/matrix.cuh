// Matrices of a head in shared memory, as right sides of products.
#pragma once

#include "mala/kernels/cuda/head.cuh"
#include "mala/kernels/cuda/hopper/share.cuh"
#include "mala/kernels/cuda/hopper/teams.cuh"

namespace mala::gpu::hopper {

// A lane has, of the rows of its results, the eight columns from 8 t on of each block of 32. So
// pairs of columns 8 apart stand together in a unit of a right side; this is the first of them.
__device__ __forceinline__ unsigned first_column(unsigned unit) {
  return unit / 4 * 32 + unit % 4 * 2;
}
// The place of a column among those of a result.
__device__ __forceinline__ unsigned result_column(unsigned column) {
  return column / 32 * 32 + column % 8 / 2 * 8 + column % 32 / 8 * 2 + column % 2;
}

// (kDim, kDim) in two parts of bfloat16, as panels of kDim rows, the rest of all behind the first
// parts of all.
template <int kDim>
struct Matrix {
  static constexpr int kPanels = HeadAccumulator<kDim>::kPanels;
  static constexpr int kPanelBytes = kDim * kPanelRowBytes, kPartBytes = kPanels * kPanelBytes;
  static constexpr int kBytes = 2 * kPartBytes, kSteps = kDim / kStepRows;
  static constexpr unsigned kAll = kDim * kDim / 8;  // fours of pairs

  uint32_t address;

  // By all threads of the block: two_at(k, unit, pair) are the numbers of a pair. Threads that
  // follow each other have rows that do.
  template <unsigned kThreads, class Two>
  __device__ __forceinline__ void fill(Two two_at) const {
    share_all<kAll, kThreads>([&](unsigned i) {
      float2 two[4];
      find(two, i, two_at);
      store(i, two);
    });
  }

  // The same in two steps: what each thread asks for, and what change(two, k, unit, pair) makes of
  // it later.
  template <unsigned kThreads>
  struct Gathered {
    float2 at[(kAll + kThreads - 1) / kThreads][4];
  };
  template <unsigned kThreads, class Two>
  static __device__ __forceinline__ Gathered<kThreads> gather(Two two_at) {
    Gathered<kThreads> all;
    share_numbered<kAll, kThreads>(
        [&](unsigned number, unsigned i) { find(all.at[number], i, two_at); });
    return all;
  }
  template <unsigned kThreads, class Change>
  __device__ __forceinline__ void fill(const Gathered<kThreads>& all, Change change) const {
    share_numbered<kAll, kThreads>([&](unsigned number, unsigned i) {
      float2 two[4];
      find(two, i, [&](unsigned k, unsigned unit, int pair) {
        return change(all.at[number][pair], k, unit, pair);
      });
      store(i, two);
    });
  }
  __device__ __forceinline__ uint64_t panels() const { return panel(address, kPanelBytes); }
  // Of what panels() gave: rows 16 * step and on.
  static __device__ __forceinline__ uint64_t at(uint64_t panels, int step, int part) {
    return moved(panels, step * kStepRows * kPanelRowBytes + part * kPartBytes);
  }

 private:
  template <class Two>
  static __device__ __forceinline__ void find(float2 (&two)[4], unsigned i, Two two_at) {
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) two[pair] = two_at(i % kDim, i / kDim, pair);
  }
  __device__ __forceinline__ void store(unsigned i, const float2 (&two)[4]) const {
    const unsigned k = i % kDim, unit = i / kDim;
    uint32_t first[4], rest[4];
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      const TwoParts parts(two[pair].x, two[pair].y);
      first[pair] = parts.first;
      rest[pair] = parts.rest;
    }
    const uint32_t to = address + unit / 8 * kPanelBytes + in_panel(k, unit % 8);
    store_shared(to, {first[0], first[1], first[2], first[3]});
    store_shared(to + kPartBytes, {rest[0], rest[1], rest[2], rest[3]});
  }
};

// to = rows * matrix, of 64 rows of bfloat16 in panels of `panel_bytes`.
template <int kDim>
__device__ __forceinline__ void multiply_rows(HeadAccumulator<kDim>& to, uint64_t rows,
                                              int panel_bytes, uint64_t matrix) {
  using M = Matrix<kDim>;
  constexpr int kStepBytes = kStepRows * 2;
#pragma unroll
  for (int step = 0; step < M::kSteps; ++step) {
    const uint64_t left = moved(rows, step / 4 * panel_bytes + step % 4 * kStepBytes);
    multiply<kDim, LeftRows::kKept>(to.c, left, M::at(matrix, step, 1), step > 0);
    multiply<kDim, LeftRows::kKept>(to.c, left, M::at(matrix, step, 0), true);
  }
}

// (features, columns) in TF32: a panel for each 32 features, with a row for each column of the
// result. Then a narrow one of one vector that is added times a number of each row.
//
// Lanes feed products as they hold rows: step j of a block takes of lane t features 8 t + 2 j and
// + 1 at places t and t + 4.
template <int kDim>
struct FineMatrix {
  static constexpr int kBlocks = kDim / kBlockCols, kPanelBytes = kDim * kPanelRowBytes;
  static constexpr int kVector = kBlocks * kPanelBytes, kBytes = kVector + 32 * kDim;

  uint32_t address;

  // By all threads of the block: four_at(feature, column) are neighbours of a row.
  template <unsigned kThreads, class FourAt>
  __device__ __forceinline__ void fill(FourAt four_at) const {
    constexpr unsigned kFours = kDim / 4;
    share_all<kFours * kFours, kThreads>([&](unsigned i) {
      const unsigned column = i % kFours * 4, place = i / kFours;  // of four features, 8 apart
      const unsigned block = place / 8, unit = place % 8;
      Four rows[4];
#pragma unroll
      for (int t = 0; t < 4; ++t) rows[t] = four_at(block * 32 + 8 * t + unit, column);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int row = result_column(column + j);
        store_shared(
            address + block * kPanelBytes + in_panel(row, unit),
            {bits_of(balanced_for_tf32(rows[0].x[j])), bits_of(balanced_for_tf32(rows[1].x[j])),
             bits_of(balanced_for_tf32(rows[2].x[j])), bits_of(balanced_for_tf32(rows[3].x[j]))});
      }
    });
  }
  // Places 0 to 2 are for the upper part of a factor, again, and for the rest of it.
  __device__ __forceinline__ void fill_vector(const float* vector) const {
    for (int i = threadIdx.x; i < kDim; i += blockDim.x) {
      const float first = fine(vector[i]), rest = vector[i] - first;
      const int row = result_column(i);
      const uint32_t at = address + kVector + row / 8 * 256 + row % 8 * 16;
      store_shared(at, {bits_of(first), bits_of(rest), bits_of(first), 0});
      store_shared(at + kNarrowGroupBytes, {});
    }
  }
  __device__ __forceinline__ uint64_t panels() const { return panel(address); }
  __device__ __forceinline__ uint64_t vector() const {
    return narrow_panel(address + kVector, 2 * kNarrowGroupBytes);
  }
};

// to = (block > 0 ? to : 0) + a block of features of a lane's two rows, times the matrix.
template <int kDim>
__device__ __forceinline__ void multiply_block(HeadAccumulator<kDim>& to, int block,
                                               const Eight& upper, const Eight& lower,
                                               uint64_t panels) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const LeftFragment left{
        {upper.x[2 * j], lower.x[2 * j], upper.x[2 * j + 1], lower.x[2 * j + 1]}};
    multiply<kDim>(to.c, left,
                   moved(panels, block * FineMatrix<kDim>::kPanelBytes + j * kFineStepRows * 4),
                   block > 0 || j > 0);
  }
}

// to += factors of a lane's rows times the vector, as exact as the vector is.
template <int kDim>
__device__ __forceinline__ void multiply_vector(HeadAccumulator<kDim>& to,
                                                const float (&factors)[2], uint64_t vector) {
  const int t = threadIdx.x % 4;
  LeftFragment left{};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float first = float_of(bits_of(factors[half]) & 0xFFFFE000u);
    const float rest = factors[half] - first;
    left.at[half] = t < 2 ? first : t == 2 ? rest : 0.0f;
  }
  multiply<kDim>(to.c, left, vector, true);
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
template <int kCols>
__device__ __forceinline__ Eight eight_of(const Accumulator<kCols>& from, int half, int block) {
  Eight e;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    e.x[2 * j] = from.at(4 * block + j, half, 0);
    e.x[2 * j + 1] = from.at(4 * block + j, half, 1);
  }
  return e;
}

}  // namespace mala::gpu::hopper
