// In how many parts the tokens of a head are done, and by what clusters of blocks.
#pragma once

#include "mala/kernels/cuda/launch.h"

namespace mala::gpu {

// Tensor cores cut sums off where others round: what that takes from a sum grows with its tokens.
// So many a part may have, or a team of one; what parts and clusters leave is added in double.
constexpr int64_t kMostPartTokens = 4096, kMostParts = 65535;

// Throws where the heads of all sequences are more than the blocks of a grid's first dimension.
void check_heads(int64_t sequences, int64_t heads);
// Likewise where all parts of all heads are in one dimension of a grid.
void check_parts(int64_t heads, int64_t parts);

// The tokens of the longest head, and those of all.
struct Longest {
  int64_t tokens = 0, of_all = 0;
};
// Parts of whole tiles, so long that all blocks together are about `blocks`: as many as the device
// holds at once.
int64_t part_tokens(const Longest& head, int64_t tile, int64_t blocks);

// By warpgroups: each multiprocessor has a block, and a block as many teams, each with tiles of its
// own.
constexpr int64_t kHopperTile = 64;
struct HopperSide {
  int64_t heads, tiles, teams;
  bool adds;  // its sums, by clusters or by a kernel afterwards
};
struct HopperParts {
  int64_t parts = 1;
  int cluster = 1;
};
// The parts of each head that are done first.
HopperParts hopper_parts(const HopperSide& side, const DeviceFacts& device, int blocks_at_once);
int64_t hopper_part_tokens(const HopperSide& side, int64_t parts);

// Tokens of the parts that causal sweeps have, each by a team, where so many run at once.
int64_t sweep_part_tokens(int64_t heads, int64_t tiles, int64_t at_once);

// How causal forwards share the tiles of each head: the teams of a cluster of blocks have a part,
// and take its tiles in turn. Where there are several, or behind a state, keys are summed in
// parts of `summed` tokens, of which a part of queries has a whole number.
struct ForwardParts {
  int64_t tokens = 0, summed = 0;
  int blocks = 1;
};
ForwardParts causal_forward_parts(int64_t heads, int64_t tiles, const DeviceFacts& device,
                                  int teams);

}  // namespace mala::gpu
