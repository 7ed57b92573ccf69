// RoPE on four or eight neighbouring elements: the turns of a token, from small tables.
#pragma once

#include <type_traits>

#include "mala/kernels/cuda/call.h"
#include "mala/kernels/cuda/eight.cuh"

namespace mala::gpu {

// Where the turns of a token begin in the tables, on one axis.
struct AxisSpot {
  int rest = 0, block = 0;
};

// On the line or by row, and by column. The latter as if the pairs of the rows stood before them.
struct Spot {
  AxisSpot row, column;
};

// Goes from token to token in equal steps.
template <Turned kHow>
class Walk {
 public:
  __device__ __forceinline__ Walk(const Turning& by, int64_t token, int64_t width, int step) {
    if (!turns(by)) return;
    const bool in_grid = is_grid(by);
    width_ = in_grid ? static_cast<int>(min(width, int64_t{1} << 30)) : 1 << 30;
    row_step_ = in_grid ? step / width_ : step;
    column_step_ = in_grid ? step % width_ : 0;
    if (!in_grid) {
      row_ = static_cast<int>(token + by.offset - by.first_row);
      return;
    }
    const int64_t position = token + by.offset - by.first_row * width;
    // From the first row of a table that has all of an image, it is never far.
    constexpr bool kIsNear = kHow == Turned::kDirect || kHow == Turned::kNear;
    using Count = std::conditional_t<kIsNear, unsigned, int64_t>;
    const auto count = static_cast<Count>(position);
    const auto of_row = static_cast<Count>(kIsNear ? width_ : width);
    row_ = static_cast<int>(count / of_row);
    column_ = static_cast<int>(count % of_row);
  }
  __device__ __forceinline__ void advance(const Turning& by) {
    if (!turns(by)) return;
    row_ += row_step_;
    if (!is_grid(by)) return;
    column_ += column_step_;
    if (column_ >= width_) {
      column_ -= width_;
      ++row_;
    }
  }
  // Rows beyond the last would lead out of the tables: they turn as the first.
  __device__ __forceinline__ Spot spot(const Turning& by, bool exists) const {
    if (!turns(by)) return {};
    const int pitch = by.pitch;
    const unsigned row = exists ? row_ : 0, column = exists ? column_ : 0;  // not negative
    constexpr unsigned kBlock = kTurnBlock;
    if (is_direct(by)) {
      return {{static_cast<int>(row) * pitch, 0},
              {static_cast<int>(column) * pitch + by.columns, 0}};
    }
    return {{static_cast<int>(row % kBlock) * pitch, static_cast<int>(row / kBlock) * pitch},
            {static_cast<int>(column % kBlock) * pitch - by.axis_pairs,
             static_cast<int>(column / kBlock) * pitch + by.columns}};
  }

  static __device__ __forceinline__ bool turns(const Turning& by) {
    return kHow != Turned::kNot && (kHow != Turned::kSomehow || by.turns);
  }
  static __device__ __forceinline__ bool is_direct(const Turning& by) {
    return kHow == Turned::kDirect || kHow == Turned::kNear ||
           (kHow == Turned::kSomehow && !by.blocks);
  }
  static __device__ __forceinline__ bool is_grid(const Turning& by) {
    return kHow != Turned::kLine && by.axis_pairs < by.pairs;
  }

 private:
  int row_ = 0, column_ = 0, width_ = 1, row_step_ = 0, column_step_ = 0;
};

// The spot that another lane has.
template <Turned kHow>
__device__ __forceinline__ Spot spot_of_lane(const Spot& mine, int lane) {
  Spot other;
  if (kHow == Turned::kNot) return other;
  other.row.rest = __shfl_sync(~0u, mine.row.rest, lane);
  if (kHow != Turned::kLine) other.column.rest = __shfl_sync(~0u, mine.column.rest, lane);
  if (kHow == Turned::kDirect || kHow == Turned::kNear) return other;
  other.row.block = __shfl_sync(~0u, mine.row.block, lane);
  if (kHow == Turned::kSomehow) other.column.block = __shfl_sync(~0u, mine.column.block, lane);
  return other;
}

__device__ __forceinline__ float4 compose(const float4& a, const float4& b) {
  return {a.x * b.x - a.y * b.y, a.y * b.x + a.x * b.y, a.z * b.z - a.w * b.w,
          a.w * b.z + a.z * b.w};
}

// Entry `at` of a table, and the next: the turns of two pairs, as (cos, sin, cos, sin), or of four.
template <Turned kHow>
__device__ __forceinline__ void read_turns(const Turn* table, int at, float4 (&two)[1]) {
  if constexpr (kHow != Turned::kNear) {
    two[0] = __ldg(reinterpret_cast<const float4*>(table + at));
  } else {
    // Wherever it is. Nothing changes there any more, so that the compiler may ask when it likes.
    asm("ld.v4.f32 {%0,%1,%2,%3}, [%4];"
        : "=f"(two[0].x), "=f"(two[0].y), "=f"(two[0].z), "=f"(two[0].w)
        : "l"(table + at));
  }
}
template <Turned kHow>
__device__ __forceinline__ void read_turns(const Turn* table, int at, float4 (&two)[2]) {
  if constexpr (kHow != Turned::kNear) {
    const float4* from = reinterpret_cast<const float4*>(table + at);
    two[0] = __ldg(from);
    two[1] = __ldg(from + 1);
  } else {
    asm("{ld.v4.f32 {%0,%1,%2,%3}, [%8]; ld.v4.f32 {%4,%5,%6,%7}, [%8+16];}"
        : "=f"(two[0].x), "=f"(two[0].y), "=f"(two[0].z), "=f"(two[0].w), "=f"(two[1].x),
          "=f"(two[1].y), "=f"(two[1].z), "=f"(two[1].w)
        : "l"(table + at));
  }
}

// Whether the pairs from `pair` on go by column. Where the head may have no such, pair is set to 0.
template <Turned kHow>
__device__ __forceinline__ bool goes_by_column(const Turning& by, int& pair) {
  if (kHow == Turned::kSomehow && pair >= by.pairs) pair = 0;
  return kHow != Turned::kLine && pair >= by.axis_pairs;
}

// Of four elements or eight, whose pairs are two or four neighbours of one axis: each axis has an
// even number of them.
template <Turned kHow, int kCount>
struct Turns {
  float4 two[kCount / 4];

  Turns() = default;
  __device__ __forceinline__ Turns(const Turning& by, const AxisSpot& spot, int pair) {
    if (!Walk<kHow>::turns(by)) return;
    read_turns<kHow>(by.rests, spot.rest + pair, two);
    if (Walk<kHow>::is_direct(by)) return;
    float4 blocks[kCount / 4];
    read_turns<kHow>(by.blocks, spot.block + pair, blocks);
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) two[i] = compose(two[i], blocks[i]);
  }
  // From column `column` on, or of any columns where the head has no such.
  __device__ __forceinline__ Turns(const Turning& by, const Spot& spot, int column) {
    if (!Walk<kHow>::turns(by)) return;
    // Of a head of any size, eight elements may lie on two axes.
    constexpr int kAtOnce = kHow == Turned::kSomehow ? 4 : kCount;
#pragma unroll
    for (int i = 0; i < kCount / kAtOnce; ++i) {
      int pair = (column + i * kAtOnce) / 2;
      const bool by_column = goes_by_column<kHow>(by, pair);
      const AxisSpot on{by_column ? +spot.column.rest : +spot.row.rest,
                        by_column ? +spot.column.block : +spot.row.block};
      const Turns<kHow, kAtOnce> some(by, on, pair);
#pragma unroll
      for (int j = 0; j < kAtOnce / 4; ++j) two[i * kAtOnce / 4 + j] = some.two[j];
    }
  }
};

template <bool kBack>
__device__ __forceinline__ void rotate_pair(float& x0, float& x1, float cos, float sin) {
  const float s = kBack ? -sin : sin;
  const float y0 = x0 * cos - x1 * s;
  x1 = x1 * cos + x0 * s;
  x0 = y0;
}

// R x, or its inverse R^T x.
template <bool kBack, Turned kHow, int kCount>
__device__ __forceinline__ Some<kCount> rotated(Some<kCount> a, const Turning& turning,
                                                const Turns<kHow, kCount>& by) {
  if (!Walk<kHow>::turns(turning)) return a;
#pragma unroll
  for (int i = 0; i < kCount / 4; ++i) {
    rotate_pair<kBack>(a.x[4 * i], a.x[4 * i + 1], by.two[i].x, by.two[i].y);
    rotate_pair<kBack>(a.x[4 * i + 2], a.x[4 * i + 3], by.two[i].z, by.two[i].w);
  }
  return a;
}

}  // namespace mala::gpu
