// Chooses parts by what they would cost.
#include "mala/kernels/cuda/parts.h"

#include <algorithm>

#include "mala/core/error.h"

namespace mala::gpu {
namespace {

constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1;  // in a grid's first dimension

// In tiles of a team: what a block does besides takes as long as some two, and so does a kernel
// that adds what clusters leave.
constexpr int64_t kBesides = 2, kAdding = 2;

// Of blocks that take so long each. Mostly they run at once, and nobody has to divide: a call tries
// over a hundred choices.
int64_t hopper_cost(int64_t blocks, int64_t at_once, int64_t of_block) {
  return (blocks <= at_once ? 1 : divide_up(blocks, at_once)) * of_block;
}

// Counts that clusters of all sizes divide: powers of two, and then whole clusters.
int64_t next_parts(int64_t parts) { return parts + std::min<int64_t>(parts, 8); }

}  // namespace

void check_heads(int64_t sequences, int64_t heads) {
  check(sequences <= kMostBlocks / heads, "attention", sequences, " sequences of ", heads,
        " heads are more than a GPU counts, ", kMostBlocks, "; split the batch");
}

void check_parts(int64_t heads, int64_t parts) {
  check(parts <= kMostBlocks / heads, "attention", heads, " heads of all sequences in ", parts,
        " parts each are more than a GPU counts, ", kMostBlocks,
        "; split the batch, or give its longest sequences a call of their own");
}

int64_t part_tokens(const Longest& head, int64_t tile, int64_t blocks) {
  const double share = static_cast<double>(head.tokens) / static_cast<double>(head.of_all);
  const int64_t parts =
      std::max<int64_t>(1, static_cast<int64_t>(share * static_cast<double>(blocks)));
  const int64_t most = std::max(kMostPartTokens, divide_up(head.tokens, kMostParts));
  return divide_up(std::min(divide_up(head.tokens, parts), most), tile) * tile;
}

HopperParts hopper_parts(const HopperSide& side, const DeviceFacts& device, int blocks_at_once) {
  const int64_t least = divide_up(side.tiles * kHopperTile, kMostPartTokens * side.teams);
  const int64_t all = int64_t{device.multiprocessors} * blocks_at_once;
  HopperParts best;
  int64_t best_cost = 0;
  for (int64_t parts = 1; parts <= kMostParts; parts = next_parts(parts)) {
    if (best_cost > 0 && (parts > side.tiles || parts * side.heads > 2 * all)) break;
    if (parts < least && next_parts(parts) <= kMostParts) continue;
    const int64_t of_block = divide_up(side.tiles, parts * side.teams) + kBesides;
    for (int i = side.adds ? DeviceFacts::kClusters - 1 : 0; i >= 0; --i) {
      const HopperParts of{parts, 1 << i};
      const int64_t at_once = i == 0 ? all : device.cluster_blocks[i];
      if (parts % of.cluster != 0 || at_once == 0) continue;
      const int64_t cost = hopper_cost(side.heads * parts, at_once, of_block) +
                           (side.adds && of.cluster < parts ? kAdding : 0);
      if (best_cost > 0 && cost >= best_cost) continue;
      best = of;
      best_cost = cost;
    }
  }
  return best;
}

int64_t hopper_part_tokens(const HopperSide& side, int64_t parts) {
  return divide_up(side.tiles, parts) * kHopperTile;
}

int64_t sweep_part_tokens(int64_t heads, int64_t tiles, int64_t at_once) {
  constexpr int64_t kBesidesOfSweep = 3, kMostTiles = kMostPartTokens / kHopperTile;
  int64_t best = 1, best_cost = 0;  // tiles of a part
  for (int64_t part = std::min(tiles, std::max(kMostTiles, divide_up(tiles, kMostParts))); part > 0;
       --part) {
    const int64_t parts = divide_up(tiles, part);
    if (parts > kMostParts) break;
    const int64_t cost = divide_up(heads * parts, at_once) * (part + kBesidesOfSweep);
    if (best_cost > 0 && cost >= best_cost) continue;
    best = part;
    best_cost = cost;
  }
  return best * kHopperTile;
}

// In hundredths of the time that a team takes for a tile. Sums go from tile to tile: that takes its
// time, too, and no block ends before the last tile has them. Where there are several parts, their
// keys are summed first, by as many teams as sweep. All of these are estimates, from instructions
// and from profiles of the sweeps before this one.
ForwardParts causal_forward_parts(int64_t heads, int64_t tiles, const DeviceFacts& device,
                                  int teams) {
  constexpr int64_t kTile = 100, kLink = 10, kBlock = 150, kSummedTile = 35, kSumming = 300;
  constexpr int64_t kMostSummed = kMostPartTokens / kHopperTile;
  constexpr int64_t kMostTiles = 1 << 14;  // of a part: its sums are in float32
  ForwardParts best;
  int64_t best_cost = 0;
  auto consider = [&](int64_t parts, int blocks, int64_t at_once) {
    const int64_t chain = blocks * teams, of_team = divide_up(tiles, parts * chain);
    const int64_t sums = divide_up(of_team, kMostSummed), summed = divide_up(of_team, sums);
    const int64_t of_part = summed * sums * chain;
    const int64_t waves = divide_up(heads * parts, std::max<int64_t>(at_once, 1));
    const int64_t by_teams = summed * sums * kTile + chain * kLink;
    int64_t cost = waves * (std::max(by_teams, std::min(of_part, tiles) * kLink) + kBlock);
    if (parts > 1) cost += waves * of_team * kSummedTile + kSumming;
    if (best_cost > 0 && cost >= best_cost) return;
    best = {of_part * kHopperTile, summed * kHopperTile, blocks};
    best_cost = cost;
  };
  const int64_t least = divide_up(tiles, kMostTiles);
  for (int i = 0; i < DeviceFacts::kClusters && least == 1; ++i) {
    const int blocks = 1 << i;
    if (device.cluster_blocks[i] > 0) consider(1, blocks, device.cluster_blocks[i] / blocks);
  }
  const int64_t most = std::max(
      least, std::min(divide_up(tiles, teams), 2 * divide_up(device.multiprocessors, heads)));
  // Of many parts one more or less is nothing, and a call has little time to choose.
  for (int64_t parts = std::max<int64_t>(2, least); parts < most; parts += 1 + parts / 32) {
    consider(parts, 1, device.multiprocessors);
  }
  if (most > 1) consider(most, 1, device.multiprocessors);
  return best;
}

}  // namespace mala::gpu
