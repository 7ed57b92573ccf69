// The causal forward on Hopper: each team sweeps over the tokens of a part. Its queries see the
// sums before a tile and the keys within it, up to their own.
#pragma once

#include "mala/kernels/cuda/hopper/causal_keys.cuh"

namespace mala::gpu::hopper {

constexpr int kSweepTeams = kSweepTeamsOnHopper;

// Rows as they come: values; keys and queries in turn. Vectors: two of each kind of sum, and sums
// of each warp.
constexpr int kForwardRaw = 2, kWarpSums = 4;

// Panels of each team; for all of them a triangle, turns and ones; broken rows of each.
template <class Kind>
struct SweepBlock {
  static constexpr int kTeam = SweepPanels::bytes(kForwardRaw);
  static constexpr int kTriangle = kSweepTeams * kTeam, kTurns = kTriangle + kTilePanelBytes;
  static constexpr int kOnes = kTurns + TileTurns<Kind>::kBytes, kBroken = kOnes + kNarrowOnesBytes;
  static constexpr int kBytes = kBroken + kSweepTeams * static_cast<int>(sizeof(BrokenRows));
  static_assert(kBytes <= kSharedBytes);
};

// What becomes of a lane's two queries: out = factor * (product + ratio * U + base * centre).
struct SweepFactors {
  float factor[2], ratio[2], base[2];
};

template <class Kind>
struct CausalSweep {
  const Call<BFloat16>& call;
  const Task& task;
  const Team<kGroupThreads>& team;
  SweepPanels panels;
  TileLane lane;
  TileTurns<Kind> turns;
  UnitShare share;
  uint32_t of_values, coming, triangle;  // panels
  RowStream<> keys, values, queries;
  BFloat16* out;
  int seen;                     // keys before the tile
  int keys_left, queries_left;  // from the tile's first on
  SweepState<Kind> state;

  __device__ __forceinline__ CausalSweep(const Call<BFloat16>& of, const Task& part,
                                         const Team<kGroupThreads>& by, std::byte* memory,
                                         const SweepTables& tables)
      : call(of),
        task(part),
        team(by),
        panels(memory),
        lane(by),
        turns(tables.turns, by),
        share(lane.warp),
        of_values(panels.raw(0)),
        coming(panels.raw(1)),
        triangle(tables.triangle),
        keys(key_rows(of.inputs.k), part.first, share),
        values(key_rows(of.inputs.v), part.first, share),
        queries(query_rows<Kind>(of.inputs.q, part, true), part.first, share),
        out(query_rows<Kind>(of.out, part, true).at(part.first + share.row, 8 * share.unit)),
        seen(static_cast<int>(part.sequence.earlier + min(part.first, part.sequence.k_count))),
        keys_left(static_cast<int>(min(part.end, part.sequence.k_count) - part.first)),
        queries_left(static_cast<int>(part.end - part.first)),
        state{turns, lane, panels, {}, {}, {}} {
    copy_keys(keys_left);
    copy_values(keys_left);
  }

  __device__ __forceinline__ void run(const float* prefix, bool careful, uint32_t ones,
                                      BrokenRows* broken_rows) {
    state.start(prefix, call, task.sequence.earlier + task.first, team);
    for (int tile = 0;; ++tile) {
      wait_copies<1>();  // for the keys; values come after them
      __syncwarp();
      bool broken = false;
      if (careful) {
        wait_copies<0>();
        team.sync();
        broken = take_out_broken(coming, of_values, broken_rows, team.thread, team.index + 1);
      }
      stage_keys();
      wait_copies<1>();  // for the values
      show_to_tensor_cores();
      team.sync();

      TileRows found;
      SweepFactors factors;
      apply(tile, ones, found, factors);
      team.sync();  // nobody reads panels of this tile any more
      if (broken) take_in_broken(tile + 1, found, *broken_rows);
      write(found, factors);
      if (queries_left <= kRowTokens) break;
      copy_values(keys_left - kRowTokens);
      const int counted = max(min(keys_left, kRowTokens), 0);
      seen += counted;
      keys_left -= kRowTokens;
      queries_left -= kRowTokens;
      state.go_on(tile + 1, counted, seen);
    }
  }

 private:
  __device__ __forceinline__ Rows<const BFloat16> key_rows(
      const HeadsView<const BFloat16>& view) const {
    return rows_of(view, task.sequence.batch, task.kv_head, task.sequence.k_first, true);
  }
  __device__ __forceinline__ void copy_keys(int left) {
    keys.copy(call.inputs.k.token_stride, left, share, coming);
    commit_copies();
  }
  __device__ __forceinline__ void copy_values(int left) {
    values.copy(call.inputs.v.token_stride, left, share, of_values);
    commit_copies();
  }
  __device__ __forceinline__ void copy_queries(int left) {
    queries.copy(call.inputs.q.token_stride, left, share, coming);
    commit_copies();
  }

  // Keys before and after they turn become panels, and the latter sums of each warp.
  __device__ __forceinline__ void stage_keys() {
    TileRows k = tile_features(coming, lane, keys_left);
    __syncwarp();
    copy_queries(queries_left);
    if (Kind::kTurns) store_rows(panels.address + SweepPanels::kPlain, lane.places, k);
    turns.rotate(k);
    store_rows(panels.address + SweepPanels::kRotated, lane.places, k);
    const float2 sums = warp_column_sums(k);
    *reinterpret_cast<float2*>(panels.vector(kWarpSums + lane.warp) + lane.column(lane.g)) = sums;
  }

  // The tile's queries: what they find, still without their factors.
  __device__ __forceinline__ void apply(int tile, uint32_t ones, TileRows& found,
                                        SweepFactors& factors) {
    TwoSums s, r;
    PartRows left;
    {
      TileRows prefixes;
      if (Kind::kTurns) fill_rows(prefixes, panels.key_sum(tile));
      begin_products();
      if (Kind::kTurns) {
        add_rows_up(prefixes, panel(panels.address + SweepPanels::kPlain), panel(triangle));
        commit_products();
      }
      state.add(of_values, ones);
      wait_copies<0>();
      __syncwarp();
      TileRows q = tile_features(coming, lane, kRowTokens);
      __syncwarp();
      copy_keys(keys_left - kRowTokens);
      if (Kind::kTurns) {
        wait_products<1>();
        meet_prefixes(tile, prefixes, q, s);
        turns.rotate(q);
      }
#pragma unroll
      for (int j = 0; j < 8; ++j) r.add(q, j, two_of(panels.rotated_sum(tile), j));
      left = PartRows(q);
    }
    if (lane.warp == 0) add_rotated(tile);

    TileRows scores;
    begin_products();
    multiply_parts<RightRows::kKept>(scores, left, panel(panels.address + SweepPanels::kRotated),
                                     false);
    commit_products();
    multiply_parts<RightRows::kKept>(found, left, panel(panels.address + SweepPanels::kMatrix),
                                     false);
    commit_products();
    wait_products<1>();
    TwoSums in_tile;
    mask(scores, in_tile);
    find_factors(s, r, in_tile, factors);
    wait_products();
    const PartRows weights = weigh(scores, factors);
    begin_products();
    multiply_means(found, factors.ratio, factors.base, panels.address);
    multiply_by<RightRows::kSummed>(found, weights, panel(of_values));
    commit_products();
    wait_products();
  }

  // By one warp: the sum of rotated keys before the next tile, from those of the warps.
  __device__ __forceinline__ void add_rotated(int tile) const {
    const int pair = threadIdx.x % 32;
    auto two = [&](const float* vector) { return reinterpret_cast<const float2*>(vector)[pair]; };
    float2 sum = two(panels.rotated_sum(tile));
#pragma unroll
    for (int warp = 0; warp < 4; ++warp) {
      const float2 more = two(panels.vector(kWarpSums + warp));
      sum.x += more.x;
      sum.y += more.y;
    }
    state.set_rotated(tile + 1, pair, sum);
  }

  // s of both rows; and the last row of all is what the next tile begins with.
  __device__ __forceinline__ void meet_prefixes(int tile, const TileRows& prefixes,
                                                const TileRows& q, TwoSums& s) const {
    s.add(q, prefixes);
    if (lane.warp == 3 && lane.g == 7) keep_row(prefixes, 1, lane, panels.key_sum(tile + 1));
  }

  // Scores with later tokens become zero; the sums of the others.
  __device__ __forceinline__ void mask(TileRows& scores, TwoSums& sums) const {
    for_steps_up_to(lane.warp, [&](auto step) {
      constexpr int kStep = decltype(step)::value, kFirst = 8 * kStep;
      if (kStep == lane.warp) clear_unseen<kFirst>(scores, lane);
#pragma unroll
      for (int i = kFirst; i < kFirst + 8; ++i) sums.of[i / 2 % 2] += scores.c[i];
    });
  }

  // scores + ratio, of tokens up to the row's own. The two nearly cancel where r is large, and cost
  // fewer digits here than in the sums over keys.
  __device__ __forceinline__ PartRows weigh(TileRows& scores, const SweepFactors& factors) const {
    PartRows weights = {};
    for_steps_up_to(lane.warp, [&](auto step) {
      constexpr int kStep = decltype(step)::value, kFirst = 8 * kStep;
#pragma unroll
      for (int i = kFirst; i < kFirst + 8; ++i) scores.c[i] += factors.ratio[i / 2 % 2];
      if (kStep == lane.warp) clear_unseen<kFirst>(scores, lane);
      weights.set(kStep, scores);
    });
    return weights;
  }

  // Values of the tile enter as they are: what they have in common is taken off the centre's
  // weight.
  __device__ __forceinline__ void find_factors(const TwoSums& s, const TwoSums& r,
                                               const TwoSums& in_tile, SweepFactors& to) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float scores = row_sum(in_tile.of[half]), rotated = row_sum(r.of[half]) + scores;
      const float plain = Kind::kTurns ? row_sum(s.of[half]) : rotated;
      const int of_tile = max(min(lane.row(half) + 1, keys_left), 0);
      const float inverse = nearly_inverse(static_cast<float>(seen + of_tile));
      const CausalWeights weights = causal_weights(
          call, call.key_mean ? call.scale * inverse : call.scale, inverse, plain, rotated);
      // So small a number leaves nothing of a product.
      to.factor[half] = fabsf(weights.product) < 1e-30f ? 1e-30f : weights.product;
      const float of_factor = nearly_inverse(to.factor[half]);
      to.ratio[half] = weights.mean * of_factor;
      to.base[half] =
          weights.base * of_factor - fmaf(to.ratio[half], static_cast<float>(of_tile), scores);
    }
  }

  // What was taken out has its effect: on this tile's queries, and on all after it.
  __device__ __forceinline__ void take_in_broken(int next, TileRows& found,
                                                 const BrokenRows& broken) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
#pragma unroll
        for (int which = 0; which < 2; ++which) {
          const int from = min(broken.by_key, broken.by_value[lane.column(j) + which]);
          if (lane.row(half) >= from) found.at(j, half, which) = NAN;
        }
      }
      if (broken.by_value[lane.row(half)] < kRowTokens) state.values.c[2 * half] = NAN;
    }
    if (broken.by_key < kRowTokens && team.thread < 64) {
      panels.key_sum(next)[team.thread] = panels.rotated_sum(next)[team.thread] = NAN;
    }
    team.sync();
  }

  __device__ __forceinline__ void write(TileRows& found, const SweepFactors& factors) {
#pragma unroll
    for (int i = 0; i < 32; ++i) found.c[i] *= factors.factor[i / 2 % 2];
    if (Kind::kTail) add_tail(found);
    write_rows(found, lane, share, panels.address + SweepPanels::kPlain,
               {out, call.out.token_stride, queries_left});
    out += kRowTokens * call.out.token_stride;
  }

  __device__ __forceinline__ void add_tail(TileRows& found) const {
    const Rows<const BFloat16> local = query_rows<Kind>(call.inputs.local, task, true);
    const Rows<const BFloat16> gate = query_rows<Kind>(call.inputs.gate, task, true);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (lane.row(half) >= queries_left) continue;
      const int64_t token = task.end - queries_left + lane.row(half);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        float &x = found.at(j, half, 0), &y = found.at(j, half, 1);
        if (local.data) {
          const uint32_t two = *reinterpret_cast<const uint32_t*>(local.at(token, lane.column(j)));
          x += low_of<BFloat16>(two);
          y += high_of<BFloat16>(two);
        }
        if (gate.data) {
          const uint32_t two = *reinterpret_cast<const uint32_t*>(gate.at(token, lane.column(j)));
          x *= low_of<BFloat16>(two);
          y *= high_of<BFloat16>(two);
        }
      }
    }
  }
};

// One dimension: as many teams as all heads of queries have parts.
template <class Kind>
__global__ void __launch_bounds__(kSweepTeams* kGroupThreads, 1)
    causal_forward_kernel(const __grid_constant__ Call<BFloat16> call, unsigned heads,
                          unsigned parts) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(kAlign) std::byte panels_of_block[];
  std::byte* memory = panels_of_block;
  const Team<kGroupThreads> team;
  using Block = SweepBlock<Kind>;
  const uint32_t at = shared_address(memory);
  const SweepTables tables{at + Block::kTriangle, at + Block::kTurns};
  wait_for_previous();
  let_next_begin();
  fill_ones(at + Block::kOnes, kNarrowOnesBytes);
  tables.template fill<Kind>(call);
  const SweepPart part = sweep_part(heads, kSweepTeams, team.index);
  if (part.part >= parts) return;
  const Task task = query_task(call, part.head, part.part);
  if (task.first == task.end) return;
  CausalSweep<Kind> sweep(call, task, team, memory + team.index * Block::kTeam, tables);
  auto* broken = reinterpret_cast<BrokenRows*>(memory + Block::kBroken) + team.index;
  sweep.run(call.prefixes + sweep_slot(call, task, part.part) * call.layout.size(),
            keys_need_care(call, task, part.part, team), at + Block::kOnes, broken);
#else
  __trap();  // never launched there
#endif
}

}  // namespace mala::gpu::hopper
