// Hopper's matrix products of a warpgroup (four warps), in bfloat16: the right side from shared
// memory, the left from there or from registers, sums in float32 registers.
//
// Matrices in shared memory are made of panels: rows of 64 numbers, 128 bytes, whose units of 16
// bytes change places from row to row. Rows are the dimension that a product sums over, so that
// tiles of tokens serve just as they lie in memory.
#pragma once

#include <cstdint>

#include "mala/kernels/cuda/tile.cuh"

namespace mala::gpu {

constexpr int kPanelCols = 64, kPanelRowBytes = 128, kPanelGroupBytes = 8 * kPanelRowBytes;
constexpr int kStepRows = 16;  // that one product sums over

// The place of a unit in a panel, in bytes.
__device__ __forceinline__ uint32_t in_panel(int row, int unit) {
  return static_cast<uint32_t>(row * kPanelRowBytes + ((unit ^ (row & 7)) << 4));
}

// Tells tensor cores of the panel at this address of shared memory, from a multiple of 8 rows on.
__device__ __forceinline__ uint64_t panel(uint32_t address) {
  constexpr uint64_t kSwaps128Bytes = 1;
  return uint64_t{(address & 0x3FFFFu) >> 4} | uint64_t{1} << 16 |
         uint64_t{kPanelGroupBytes >> 4} << 32 | kSwaps128Bytes << 62;
}
// The same, so many bytes further on.
__device__ __forceinline__ uint64_t moved(uint64_t panel, int bytes) {
  return panel + static_cast<uint32_t>(bytes >> 4);
}
// Tells them of rows of 8 numbers, 16 bytes, one after the other.
__device__ __forceinline__ uint64_t narrow_panel(uint32_t address) {
  constexpr uint64_t kGroup = 8 * 16 >> 4;  // of eight rows
  return uint64_t{(address & 0x3FFFFu) >> 4} | kGroup << 16 | kGroup << 32;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define MALA_WGMMA(...) asm volatile(__VA_ARGS__)
#else
#define MALA_WGMMA(...)
#endif

// What threads wrote to shared memory becomes visible to tensor cores, once all have passed a
// barrier too.
__device__ __forceinline__ void show_to_tensor_cores() {
  MALA_WGMMA("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void begin_products() {
  MALA_WGMMA("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void commit_products() {
  MALA_WGMMA("wgmma.commit_group.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wait_products() {
  MALA_WGMMA("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// A 16 x 16 piece of a left side for each warp, packed: rows g and g + 8, columns 2 t, 2 t + 1 and
// 2 t + 8, 2 t + 9.
struct LeftFragment {
  uint32_t rows[4];  // (g, low), (g + 8, low), (g, high), (g + 8, high)
};

// 64 rows by kCols columns of a result. Lane (g, t) of warp w has of rows 16 w + g and + 8 the
// columns 8 j + 2 t and + 1, for each j.
template <int kCols>
struct Accumulator {
  float c[kCols / 2];

  __device__ __forceinline__ float& at(int j, int half, int which) {
    return c[4 * j + 2 * half + which];
  }
  __device__ __forceinline__ float at(int j, int half, int which) const {
    return c[4 * j + 2 * half + which];
  }
};

#define MALA_C4(i) "+f"(to.c[i]), "+f"(to.c[i + 1]), "+f"(to.c[i + 2]), "+f"(to.c[i + 3])
#define MALA_C16(i) MALA_C4(i), MALA_C4(i + 4), MALA_C4(i + 8), MALA_C4(i + 12)
#define MALA_R16_0 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define MALA_R16_1 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define MALA_SHAPE(n) "wgmma.mma_async.sync.aligned.m64n" n "k16.f32.bf16.bf16 "

// How the left side lies in shared memory: its rows are what is summed over, as in the right side,
// or they are rows of the result.
enum class LeftRows { kSummed, kKept };

// to = left * right + (adds ? to : 0). The rows of the right side are what is summed over.
template <LeftRows kLeft = LeftRows::kSummed>
__device__ __forceinline__ void multiply(Accumulator<64>& to, uint64_t left, uint64_t right,
                                         bool adds) {
  MALA_WGMMA("{.reg .pred p; setp.ne.b32 p, %34, 0; " MALA_SHAPE(
                 "64") "{" MALA_R16_0 "," MALA_R16_1 "}, %32, %33, p, 1, 1, %35, 1;}"
             : MALA_C16(0), MALA_C16(16)
             : "l"(left), "l"(right), "r"(static_cast<int>(adds)), "n"(kLeft == LeftRows::kSummed));
}
template <LeftRows kLeft = LeftRows::kSummed>
__device__ __forceinline__ void multiply(Accumulator<32>& to, uint64_t left, uint64_t right,
                                         bool adds) {
  MALA_WGMMA("{.reg .pred p; setp.ne.b32 p, %18, 0; " MALA_SHAPE(
                 "32") "{" MALA_R16_0 "}, %16, %17, p, 1, 1, %19, 1;}"
             : MALA_C16(0)
             : "l"(left), "l"(right), "r"(static_cast<int>(adds)), "n"(kLeft == LeftRows::kSummed));
}
template <LeftRows kLeft = LeftRows::kSummed>
__device__ __forceinline__ void multiply(Accumulator<8>& to, uint64_t left, uint64_t right,
                                         bool adds) {
  MALA_WGMMA("{.reg .pred p; setp.ne.b32 p, %6, 0; " MALA_SHAPE("8") "{%0,%1,%2,%3}, %4, %5, p, "
             "1, 1, %7, 1;}"
             : MALA_C4(0)
             : "l"(left), "l"(right), "r"(static_cast<int>(adds)), "n"(kLeft == LeftRows::kSummed));
}
__device__ __forceinline__ void multiply(Accumulator<64>& to, const LeftFragment& left,
                                         uint64_t right, bool adds) {
  MALA_WGMMA("{.reg .pred p; setp.ne.b32 p, %37, 0; " MALA_SHAPE(
                 "64") "{" MALA_R16_0 "," MALA_R16_1 "}, {%32,%33,%34,%35}, %36, p, 1, 1, 1;}"
             : MALA_C16(0), MALA_C16(16)
             : "r"(left.rows[0]), "r"(left.rows[1]), "r"(left.rows[2]), "r"(left.rows[3]),
               "l"(right), "r"(static_cast<int>(adds)));
}
__device__ __forceinline__ void multiply(Accumulator<32>& to, const LeftFragment& left,
                                         uint64_t right, bool adds) {
  MALA_WGMMA("{.reg .pred p; setp.ne.b32 p, %21, 0; " MALA_SHAPE(
                 "32") "{" MALA_R16_0 "}, {%16,%17,%18,%19}, %20, p, 1, 1, 1;}"
             : MALA_C16(0)
             : "r"(left.rows[0]), "r"(left.rows[1]), "r"(left.rows[2]), "r"(left.rows[3]),
               "l"(right), "r"(static_cast<int>(adds)));
}

#undef MALA_SHAPE
#undef MALA_R16_1
#undef MALA_R16_0
#undef MALA_C16
#undef MALA_C4
#undef MALA_WGMMA

// All columns of a head: panels of 64, the last one narrower for heads of 96.
template <int kDim>
struct HeadAccumulator {
  static constexpr int kPanels = (kDim + kPanelCols - 1) / kPanelCols;
  static constexpr int kLast = kDim - (kPanels - 1) * kPanelCols;
  Accumulator<64> whole[kPanels == 1 ? 1 : kPanels - 1];
  Accumulator<kLast> last;

  template <class Left>
  __device__ __forceinline__ void multiply_panel(int index, const Left& left, uint64_t right,
                                                 bool adds) {
    if (index + 1 < kPanels) return multiply(whole[index], left, right, adds);
    multiply(last, left, right, adds);
  }
  // With rows of the left side that are rows of the result.
  __device__ __forceinline__ void multiply_rows(int index, uint64_t left, uint64_t right,
                                                bool adds) {
    if (index + 1 < kPanels) return multiply<LeftRows::kKept>(whole[index], left, right, adds);
    multiply<LeftRows::kKept>(last, left, right, adds);
  }
  // Columns 8 j + 2 t and + 1 of all, of row g + 8 * half.
  __device__ __forceinline__ float at(int j, int half, int which) const {
    return j < (kPanels - 1) * 8 ? whole[j / 8].at(j % 8, half, which)
                                 : last.at(j - (kPanels - 1) * 8, half, which);
  }
};

// Two numbers as bfloat16, and what that left of them.
struct TwoParts {
  uint32_t first, rest;

  __device__ __forceinline__ TwoParts(float low, float high) : first(pack<BFloat16>(low, high)) {
    rest = pack<BFloat16>(low - low_of<BFloat16>(first), high - high_of<BFloat16>(first));
  }
};

}  // namespace mala::gpu
