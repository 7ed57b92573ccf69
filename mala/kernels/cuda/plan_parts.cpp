// The part of a plan that tells what blocks of warpgroups have of the bidirectional passes: parts
// of heads, whole ones, or heads that are spread.
#include "mala/kernels/cuda/parts.h"
#include "mala/kernels/cuda/plan.h"
#include "mala/kernels/cuda/shape.h"

namespace mala::gpu {

template <typename T>
void Plan<T>::choose_hopper_parts(Direction direction, const DeviceFacts& device) {
  const Teams teams = teams_on_hopper(padded);
  const bool forward = direction == Direction::kForward;
  const int wide = forward ? kWholeTeams : kWholeTeamsOfGradients;
  const Side& summed = forward ? keys_ : queries_;
  if (choose_whole_heads(wide, summed, device) || choose_spread_heads(wide, summed, device)) return;
  auto side_of = [&](const Side& side, int64_t heads, int64_t of_block, bool adds) -> HopperSide {
    const int64_t longest = std::max<int64_t>(1, side.longest);
    return {std::max<int64_t>(1, side.total * heads / longest), divide_up(longest, kHopperTile),
            of_block, adds && sequences_.empty()};
  };
  // Where there are many heads in the backward, teams are blocks of their own.
  auto are_many = [&](int of_multiprocessor) {
    return !forward && padded == 64 &&
           units() >= int64_t{of_multiprocessor} * device.multiprocessors;
  };
  const int key_block = forward ? teams.sum_keys : teams.key_gradients;
  if (are_many(key_block)) key_teams = 1;
  const HopperSide keys =
      side_of(keys_, call.kv_heads, key_teams > 0 ? key_teams : key_block, forward);
  const HopperParts key_parts = hopper_parts(keys, device, key_teams > 0 ? key_block : 1);
  call.k_part_tokens = hopper_part_tokens(keys, key_parts.parts);
  key_cluster = key_parts.cluster;

  const int query_block = forward ? teams.apply_queries : teams.query_gradients;
  if (are_many(query_block)) query_teams = 1;
  const HopperSide queries =
      side_of(queries_, call.heads, query_teams > 0 ? query_teams : query_block, !forward);
  const HopperParts query_parts = hopper_parts(queries, device, query_teams > 0 ? query_block : 1);
  call.q_part_tokens = hopper_part_tokens(queries, query_parts.parts);
  query_cluster = query_parts.cluster;
}

// Whether the passes of a direction may be one kernel.
template <typename T>
bool Plan<T>::can_be_whole() const {
  return padded == 64 && sequences_.empty() && call.group == 1 && call.inputs.k.data &&
         !keys_alone_;
}

// Where blocks of whole heads fill the device well enough: one for each head, or a cluster. Or
// where they have a tile for each team at most: one kernel is launched sooner than three. Blocks
// have so many teams, or, where there are many heads, one.
template <typename T>
bool Plan<T>::choose_whole_heads(int wide, const Side& summed, const DeviceFacts& device) {
  if (!can_be_whole()) return false;
  const int64_t heads = units();
  const int64_t tiles = divide_up(std::max(keys_.longest, queries_.longest), kHopperTile);
  int i = 0;  // of clusters
  while (i + 1 < DeviceFacts::kClusters && heads << (i + 1) <= device.cluster_blocks[i + 1] &&
         tiles > wide << i) {
    ++i;
  }
  const int64_t blocks = int64_t{1} << i;
  const int64_t waves = divide_up(heads * blocks, device.cluster_blocks[i]);
  const bool narrow = heads >= wide * device.multiprocessors;
  const bool is_short = tiles <= wide << i;
  const bool fills = 10 * heads * blocks >= 7 * waves * device.multiprocessors;
  if (!narrow && !is_short && !fills) return false;
  const int teams = narrow ? 1 : wide;
  auto tiles_of = [](const Side& side) { return divide_up(side.longest, kHopperTile); };
  if (divide_up(tiles_of(summed), blocks * teams) * kHopperTile > kMostPartTokens) return false;
  call.k_part_tokens = divide_up(tiles_of(keys_), blocks) * kHopperTile;
  call.q_part_tokens = divide_up(tiles_of(queries_), blocks) * kHopperTile;
  key_cluster = query_cluster = static_cast<int>(blocks);
  query_teams = teams;
  key_teams = narrow ? 1 : 0;
  has_whole_heads = true;
  return true;
}

// Where heads are few, and blocks for all of them at once more than one each: no more of these than
// take as long as all would.
template <typename T>
bool Plan<T>::choose_spread_heads(int teams, const Side& summed, const DeviceFacts& device) {
  if (!can_be_whole() || !device.runs_together) return false;
  const int64_t most = device.multiprocessors / units();
  if (most < 2) return false;
  auto part_tokens = [&](const Side& side) {
    const int64_t tiles = divide_up(side.longest, kHopperTile);
    return divide_up(tiles, most * teams) * teams * kHopperTile;
  };
  if (part_tokens(summed) > teams * kMostPartTokens) return false;
  call.k_part_tokens = part_tokens(keys_);
  call.q_part_tokens = part_tokens(queries_);
  key_cluster = query_cluster = 1;
  has_spread_heads = true;
  return true;
}

#define MALA_INSTANTIATE(T)                                                        \
  template void Plan<T>::choose_hopper_parts(Direction, const DeviceFacts&);       \
  template bool Plan<T>::can_be_whole() const;                                     \
  template bool Plan<T>::choose_whole_heads(int, const Side&, const DeviceFacts&); \
  template bool Plan<T>::choose_spread_heads(int, const Side&, const DeviceFacts&)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala::gpu
