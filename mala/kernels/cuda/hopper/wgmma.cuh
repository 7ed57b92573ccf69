// Hopper's matrix products of a warpgroup (four warps): the right side from shared memory, the left
// from there or from registers, in bfloat16 or, from registers, in TF32; sums in float32 registers.
//
// Matrices in shared memory are made of panels: rows of 128 bytes whose units of 16 bytes change
// places from row to row. In bfloat16 rows are the dimension that a product sums over, so that
// tiles of tokens serve just as they lie in memory; in TF32 they are columns of the result.
#pragma once

#include <cstdint>

#include "mala/kernels/cuda/tile.cuh"

namespace mala::gpu {

constexpr int kPanelCols = 64, kPanelRowBytes = 128, kPanelGroupBytes = 8 * kPanelRowBytes;
constexpr int kStepRows = 16;     // that one product in bfloat16 sums over
constexpr int kFineStepRows = 8;  // in TF32

// The place of a unit in a panel, in bytes.
__device__ __forceinline__ uint32_t in_panel(int row, int unit) {
  return static_cast<uint32_t>(row * kPanelRowBytes + ((unit ^ (row & 7)) << 4));
}

// Tells tensor cores of the panel at this address of shared memory, from a multiple of 8 rows on,
// and of those that follow it so many bytes apart, where a matrix has more columns.
__device__ __forceinline__ uint64_t panel(uint32_t address, int panel_bytes = 16) {
  constexpr uint64_t kSwaps128Bytes = 1;
  return uint64_t{(address & 0x3FFFFu) >> 4} | static_cast<uint64_t>(panel_bytes >> 4) << 16 |
         uint64_t{kPanelGroupBytes >> 4} << 32 | kSwaps128Bytes << 62;
}
// The same, so many bytes further on.
__device__ __forceinline__ uint64_t moved(uint64_t panel, int bytes) {
  return panel + static_cast<uint32_t>(bytes >> 4);
}
// The same, but the panel that follows stays where it is.
__device__ __forceinline__ uint64_t moved_alone(uint64_t panel, int bytes) {
  const int64_t units = bytes >> 4;
  return panel + static_cast<uint64_t>(units - (units << 16));
}
// Tells them of rows of 16 bytes, one after the other.
constexpr int kNarrowGroupBytes = 8 * 16;
__device__ __forceinline__ uint64_t narrow_panel(uint32_t address,
                                                 int group_bytes = kNarrowGroupBytes) {
  return uint64_t{(address & 0x3FFFFu) >> 4} | uint64_t{kNarrowGroupBytes >> 4} << 16 |
         static_cast<uint64_t>(group_bytes >> 4) << 32;
}

// Two ones in bfloat16, and the bytes of a narrow panel of them.
constexpr uint32_t kTwoOnes = 0x3F803F80u;
constexpr int kNarrowOnesBytes = 16 * kStepRows;
// By all threads of the block.
__device__ __forceinline__ void fill_ones(uint32_t to, int bytes) {
  for (int i = 16 * threadIdx.x; i < bytes; i += 16 * blockDim.x)
    store_shared(to + i, {kTwoOnes, kTwoOnes, kTwoOnes, kTwoOnes});
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
// For all but the last kPending groups of them.
template <int kPending = 0>
__device__ __forceinline__ void wait_products() {
  MALA_WGMMA("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// A 16 x 8 piece of a left side for each warp, in float32, of which the upper 19 bits count: rows g
// and g + 8, columns t and t + 4.
struct LeftFragment {
  float at[4];  // (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4)
};

// A 16 x 16 piece of a left side for each warp, in bfloat16: of rows g and g + 8 the columns 2 t
// and
// + 1, then those 8 further on.
struct LeftTwos {
  uint32_t at[4];
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

// How a side lies in shared memory: its rows are what is summed over, or they are rows, on the
// right columns, of the result.
enum class LeftRows { kSummed, kKept };
enum class RightRows { kSummed, kKept };

#define MALA_C4(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define MALA_C16(i) MALA_C4(i), MALA_C4(i + 4), MALA_C4(i + 8), MALA_C4(i + 12)
#define MALA_R16_0 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define MALA_R16_1 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define MALA_R16_2 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define MALA_R16_3 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define MALA_IF(i) "{.reg .pred p; setp.ne.b32 p, %" i ", 0; wgmma.mma_async.sync.aligned.m64n"
#define MALA_BF16 "k16.f32.bf16.bf16 "
#define MALA_TF32 "k8.f32.tf32.tf32 "
#define MALA_SIDES "l"(left), "l"(right), "r"(static_cast<int>(adds)), "n"(left_rows_are_summed)
#define MALA_FRAGMENT                                                           \
  "r"(bits_of(left.at[0])), "r"(bits_of(left.at[1])), "r"(bits_of(left.at[2])), \
      "r"(bits_of(left.at[3])), "l"(right), "r"(static_cast<int>(adds))

#define MALA_TWOS                                                                 \
  "r"(left.at[0]), "r"(left.at[1]), "r"(left.at[2]), "r"(left.at[3]), "l"(right), \
      "r"(static_cast<int>(adds)), "n"(right_rows_are_summed)

// c = left * right + (adds ? c : 0), for kCols columns, in bfloat16.
template <int kCols, LeftRows kLeft = LeftRows::kSummed>
__device__ __forceinline__ void multiply(float* c, uint64_t left, uint64_t right, bool adds) {
  constexpr int left_rows_are_summed = kLeft == LeftRows::kSummed;
  static_assert(kCols == 128 || kCols == 96 || kCols == 64 || kCols == 32 || kCols == 8);
  if constexpr (kCols == 128) {
    MALA_WGMMA(MALA_IF("66") "128" MALA_BF16 "{" MALA_R16_0 "," MALA_R16_1 "," MALA_R16_2
                             "," MALA_R16_3 "}, %64, %65, p, 1, 1, %67, 1;}"
               : MALA_C16(0), MALA_C16(16), MALA_C16(32), MALA_C16(48)
               : MALA_SIDES);
  } else if constexpr (kCols == 96) {
    MALA_WGMMA(MALA_IF("50") "96" MALA_BF16 "{" MALA_R16_0 "," MALA_R16_1 "," MALA_R16_2
                             "}, %48, %49, p, 1, 1, %51, 1;}"
               : MALA_C16(0), MALA_C16(16), MALA_C16(32)
               : MALA_SIDES);
  } else if constexpr (kCols == 64) {
    MALA_WGMMA(MALA_IF("34") "64" MALA_BF16 "{" MALA_R16_0 "," MALA_R16_1
                             "}, %32, %33, p, 1, 1, %35, 1;}"
               : MALA_C16(0), MALA_C16(16)
               : MALA_SIDES);
  } else if constexpr (kCols == 32) {
    MALA_WGMMA(MALA_IF("18") "32" MALA_BF16 "{" MALA_R16_0 "}, %16, %17, p, 1, 1, %19, 1;}"
               : MALA_C16(0)
               : MALA_SIDES);
  } else {
    MALA_WGMMA(MALA_IF("6") "8" MALA_BF16 "{%0,%1,%2,%3}, %4, %5, p, 1, 1, %7, 1;}"
               : MALA_C4(0)
               : MALA_SIDES);
  }
}

// The same in TF32.
template <int kCols>
__device__ __forceinline__ void multiply(float* c, const LeftFragment& left, uint64_t right,
                                         bool adds) {
  static_assert(kCols == 64 || kCols == 96 || kCols == 128);
  if constexpr (kCols == 64) {
    MALA_WGMMA(MALA_IF("37") "64" MALA_TF32 "{" MALA_R16_0 "," MALA_R16_1
                             "}, {%32,%33,%34,%35}, %36, p, 1, 1;}"
               : MALA_C16(0), MALA_C16(16)
               : MALA_FRAGMENT);
  } else if constexpr (kCols == 96) {
    MALA_WGMMA(MALA_IF("53") "96" MALA_TF32 "{" MALA_R16_0 "," MALA_R16_1 "," MALA_R16_2
                             "}, {%48,%49,%50,%51}, %52, p, 1, 1;}"
               : MALA_C16(0), MALA_C16(16), MALA_C16(32)
               : MALA_FRAGMENT);
  } else {
    MALA_WGMMA(MALA_IF("69") "128" MALA_TF32 "{" MALA_R16_0 "," MALA_R16_1 "," MALA_R16_2
                             "," MALA_R16_3 "}, {%64,%65,%66,%67}, %68, p, 1, 1;}"
               : MALA_C16(0), MALA_C16(16), MALA_C16(32), MALA_C16(48)
               : MALA_FRAGMENT);
  }
}

// c += left * right in bfloat16, the left side from registers.
template <int kCols, RightRows kRight>
__device__ __forceinline__ void multiply(float* c, const LeftTwos& left, uint64_t right,
                                         bool adds = true) {
  constexpr int right_rows_are_summed = kRight == RightRows::kSummed;
  static_assert(kCols == 128 || kCols == 104 || kCols == 72 || kCols == 64 || kCols == 8);
  if constexpr (kCols == 128) {
    MALA_WGMMA(MALA_IF("69") "128" MALA_BF16 "{" MALA_R16_0 "," MALA_R16_1 "," MALA_R16_2
                             "," MALA_R16_3 "}, {%64,%65,%66,%67}, %68, p, 1, 1, %70;}"
               : MALA_C16(0), MALA_C16(16), MALA_C16(32), MALA_C16(48)
               : MALA_TWOS);
  } else if constexpr (kCols == 104) {
    MALA_WGMMA(MALA_IF("57") "104" MALA_BF16 "{" MALA_R16_0 "," MALA_R16_1 "," MALA_R16_2
                             ",%48,%49,%50,%51}, {%52,%53,%54,%55}, %56, p, 1, 1, %58;}"
               : MALA_C16(0), MALA_C16(16), MALA_C16(32), MALA_C4(48)
               : MALA_TWOS);
  } else if constexpr (kCols == 72) {
    MALA_WGMMA(MALA_IF("41") "72" MALA_BF16 "{" MALA_R16_0 "," MALA_R16_1
                             ",%32,%33,%34,%35}, {%36,%37,%38,%39}, %40, p, 1, 1, %42;}"
               : MALA_C16(0), MALA_C16(16), MALA_C4(32)
               : MALA_TWOS);
  } else if constexpr (kCols == 64) {
    MALA_WGMMA(MALA_IF("37") "64" MALA_BF16 "{" MALA_R16_0 "," MALA_R16_1
                             "}, {%32,%33,%34,%35}, %36, p, 1, 1, %38;}"
               : MALA_C16(0), MALA_C16(16)
               : MALA_TWOS);
  } else {
    MALA_WGMMA(MALA_IF("9") "8" MALA_BF16 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, p, 1, 1, %10;}"
               : MALA_C4(0)
               : MALA_TWOS);
  }
}

#undef MALA_TWOS
#undef MALA_FRAGMENT
#undef MALA_SIDES
#undef MALA_TF32
#undef MALA_BF16
#undef MALA_IF
#undef MALA_R16_3
#undef MALA_R16_2
#undef MALA_R16_1
#undef MALA_R16_0
#undef MALA_C16
#undef MALA_C4
#undef MALA_WGMMA

// All columns of a head. Tiles in bfloat16 have panels of 64 of them, the last one half empty for
// heads of 96.
template <int kDim>
struct HeadAccumulator : Accumulator<kDim> {
  static constexpr int kPanels = (kDim + kPanelCols - 1) / kPanelCols;
};

// Two numbers as bfloat16, and what that left of them.
struct TwoParts {
  uint32_t first, rest;

  __device__ __forceinline__ TwoParts(float low, float high) : first(pack<BFloat16>(low, high)) {
    rest = pack<BFloat16>(low - low_of<BFloat16>(first), high - high_of<BFloat16>(first));
  }
};

// What tensor cores cut off of a number for TF32, on average, as a share of it.
constexpr float kCutOff = 0.75f * 0x1p-11f;
// With that added they cut off as often above as below it.
__device__ __forceinline__ float balanced_for_tf32(float x) { return fmaf(x, kCutOff, x); }

// The nearest number that TF32 holds.
__device__ __forceinline__ float fine(float x) {
  uint32_t y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return float_of(y);
}

}  // namespace mala::gpu
