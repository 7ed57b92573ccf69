// How a block of threads is built for each padded head size.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "mala/core/dtypes.h"
#include "mala/core/views.h"

namespace mala::gpu {

// Bytes of shared memory that a block can have: on Hopper, and on any device.
constexpr int kSharedBytes = 227 * 1024, kLeastSharedBytes = 99 * 1024;

// Whether so many blocks fit on a multiprocessor of Hopper, each with a KiB of the system's.
constexpr bool fit_at_once(int blocks, int bytes) {
  return blocks * (bytes + 1024) <= kSharedBytes + 1024;
}

// Types finer than what tensor cores take in: their numbers have two parts.
template <typename T>
constexpr bool kFine = !std::is_same_v<T, BFloat16>;

// Passes that sum over tokens. Each warp has a slice of 32 features, all of kChunk values, and one
// of kGroups shares of a tile's tokens. Where the values of a head are more, several blocks have
// them.
template <typename T, int kDim>
struct SumShape {
  static constexpr int kSlices = kDim / 32, kGroups = kDim <= 128 ? 2 : 1;
  static constexpr int kWarps = kSlices * kGroups, kThreads = 32 * kWarps;
  // As far as shared memory allows, each warp has 16 tokens in the work on rows.
  static constexpr int kTokens = kDim <= 128 ? 16 * kWarps : 64;
  static constexpr int kChunk = std::min(kDim, kFine<T> ? 64 : 128);
};

// Whether the matrices that rows are multiplied by fit into shared memory, beside the tiles.
template <typename T, int kDim>
constexpr bool kSharedRight = kDim <= (kFine<T> ? 64 : 128);

// Where features are kept beside a tile and its rows meet a matrix, there is room for half of it in
// some heads: a block may have no more than 163 KiB before Hopper.
template <typename T, int kDim>
constexpr bool kHalfTiles = kDim > 96 && (sizeof(T) > 2 || kSharedRight<T, kDim>);
template <typename T, int kDim>
constexpr int kGradientTokens = SumShape<T, kDim>::kTokens / (kHalfTiles<T, kDim> ? 2 : 1);

// Whether this thread has rows of a tile of so many tokens.
template <typename S, int kTokens>
MALA_INLINE bool has_rows(unsigned thread) {
  return kTokens == 16 * S::kWarps || thread < 2 * kTokens;
}

// Passes that only take rows through matrices: each warp has kRowTiles times 16 tokens of a tile,
// more of them to read each matrix less often. One matrix for queries, two for keys, beside which
// there may be room for few tokens.
template <typename T, int kDim, int kMatrices>
struct RowShape {
  static constexpr bool kFew = kDim * sizeof(T) > 512 || (kMatrices > 1 && kSharedRight<T, kDim>);
  static constexpr int kWarps = kDim <= 96 || kFew ? 4 : 8;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kRowTiles = kFine<T> || kDim > (kMatrices == 1 ? 128 : 96) ? 1 : 2;
  static constexpr int kTokens = 16 * kRowTiles * kWarps;
};

// Whether kernels keep what they could compute twice, in registers.
template <typename T, int kDim>
constexpr bool kKeeps = !kFine<T> && kDim <= 64;

// Whether there are kernels that know that nothing turns, or that there is no tail. They are
// shorter, but each takes its time to compile.
template <typename T>
constexpr bool kSpecialType = std::is_same_v<T, BFloat16>;
template <typename T, int kDim>
constexpr bool kSpecial = kSpecialType<T>&& kDim <= 128;

// How many blocks of each pass a multiprocessor should hold, of narrow types: what the compiler has
// to leave registers for.
struct BlocksAtOnce {
  int sum_keys, apply_queries, query_gradients, key_gradients;
};
constexpr BlocksAtOnce blocks_at_once(int padded) {
  if (padded == 64) return {3, 3, 2, 2};
  if (padded == 96) return {2, 2, 1, 1};
  return {1, 1, 1, 1};
}
// On Hopper a multiprocessor has one block of so many teams, each with tiles of its own to work on,
// or as many blocks of one team; what registers are left then serves each.
struct Teams {
  int sum_keys, apply_queries, query_gradients, key_gradients;
};
constexpr Teams teams_on_hopper(int padded) {
  if (padded == 64) return {4, 4, 2, 3};
  return padded == 96 ? Teams{2, 3, 1, 3} : Teams{2, 3, 1, 2};
}
// Of a direction in one kernel, in heads of 64.
constexpr int kWholeTeams = teams_on_hopper(64).sum_keys;
constexpr int kWholeTeamsOfGradients = teams_on_hopper(64).query_gradients;
// Of causal sweeps, in heads of 64: forward, and for gradients.
constexpr int kSweepTeamsOnHopper = 3, kGradientTeamsOnHopper = 2;
// Bytes that a block has for turns, in the forward, and over queries and keys in the backward.
constexpr int near_bytes_forward(int padded, int teams = 0) {
  if (teams == 1 && padded < 128) return 4608;
  return (padded == 64 ? 28 : padded == 96 ? 32 : 34) * 1024;
}
constexpr int kNearBytesOfQueries = 36 * 1024;
constexpr int near_bytes_of_keys(int padded, int teams = 0) {
  if (teams == 1 && padded == 64) return 8 * 1024;
  return (padded == 128 ? 20 : padded == 96 ? 32 : 36) * 1024;
}
template <typename T, int kDim>
constexpr BlocksAtOnce kLeastBlocks = kFine<T> ? BlocksAtOnce{1, 1, 1, 1} : blocks_at_once(kDim);

// Causal sweeps go by tiles of so many tokens. A head's matrix runs along with them in shared
// memory; where it is too large, parts are single tiles, and nothing has to run.
constexpr int kTileTokens = 64;
template <int kDim>
constexpr bool kRunsInShared = kDim <= 128;

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
