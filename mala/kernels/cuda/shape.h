// How a block of threads is built for each padded head size.
#pragma once

#include <cstdint>
#include <type_traits>

#include "mala/core/dtypes.h"

namespace mala::gpu {

// In the work on rows each warp has 16 tokens of a tile. In sums over tokens the warps share the
// (kDim, kChunk) result: kRowWarps times kColumnWarps pieces.
template <int kRows, int kColumns, int kValueColumns>
struct BlockShape {
  static constexpr int kRowWarps = kRows, kColumnWarps = kColumns, kChunk = kValueColumns;
  static constexpr int kWarps = kRowWarps * kColumnWarps, kThreads = 32 * kWarps;
  static constexpr int kTokens = 16 * kWarps;
};

// For the head size kDim that both D and E are padded to.
template <int kDim>
struct Shape;
template <>
struct Shape<64> : BlockShape<2, 2, 64> {};
template <>
struct Shape<96> : BlockShape<3, 2, 96> {};
template <>
struct Shape<128> : BlockShape<4, 2, 128> {};
// Sums of this size do not fit into the registers of a block: several share them.
template <>
struct Shape<256> : BlockShape<4, 1, 32> {};

// Whether the matrices that rows are multiplied by fit into shared memory, beside the tiles.
template <typename T, int kDim>
constexpr bool kSharedRight = kDim <= (sizeof(T) == 4 ? 64 : 128);

// Whether loops over the blocks of a row are unrolled, and their results kept in registers. Other
// kernels would be too large for that: they would take minutes to compile.
template <typename T, int kDim>
constexpr bool kUnrolls = std::is_same_v<T, BFloat16>&& kDim <= 128;

// Blocks of 32 columns that such a loop takes at once.
template <typename T, int kDim>
constexpr int kUnrolledBlocks = kUnrolls<T, kDim> ? kDim / 32 : 1;

// Whether there are kernels that know that nothing turns, or that there is no tail. They are
// shorter, but each takes its time to compile.
template <typename T, int kDim>
constexpr bool kSpecial = kUnrolls<T, kDim>;

// How many blocks of each pass a multiprocessor holds, in bfloat16.
struct BlocksAtOnce {
  int forward, query_gradients, key_gradients;
};
constexpr BlocksAtOnce blocks_at_once(int padded) {
  if (padded == 64) return {4, 2, 3};
  if (padded == 96) return {2, 1, 1};
  return {1, 1, 1};
}

// What the compiler has to leave registers for.
template <typename T, int kDim>
constexpr BlocksAtOnce kLeastBlocks = std::is_same_v<T, BFloat16> ? blocks_at_once(kDim)
                                                                  : BlocksAtOnce{1, 1, 1};

constexpr int kSharedBytes = 227 * 1024;  // that a block can have

// Two stages where they fit: the next tile is on its way while this one is worked on.
constexpr int stages(int fixed_bytes, int stage_bytes) {
  return fixed_bytes + 2 * stage_bytes <= kSharedBytes ? 2 : 1;
}

// The sizes that are compiled, smallest first. Heads of 96 are common in bfloat16 alone.
template <typename T>
constexpr int padded_dim(int64_t dim) {
  if (dim <= 64) return 64;
  if (std::is_same_v<T, BFloat16> && dim <= 96) return 96;
  return dim <= 128 ? 128 : 256;
}

// Calls run(std::integral_constant<int, kDim>) for one of them.
template <typename T, class Run>
auto with_dim(int padded, Run&& run) {
  if (padded == 64) return run(std::integral_constant<int, 64>{});
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (padded == 96) return run(std::integral_constant<int, 96>{});
  }
  if (padded == 128) return run(std::integral_constant<int, 128>{});
  return run(std::integral_constant<int, 256>{});
}

}  // namespace mala::gpu
