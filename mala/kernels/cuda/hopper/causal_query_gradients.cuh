// The first sweep of the causal backward on Hopper: dq of each token, and the weights with which it
// enters the gradients of the sums. Without a tail.
//
// A query's gradient is S g, of all keys up to its own, and the sums of keys up to there, each
// times a number. Both come as products: of the sums before the tile, and of a triangle.
#pragma once

#include "mala/kernels/cuda/hopper/causal_keys.cuh"
#include "mala/kernels/cuda/hopper/causal_sums.cuh"
#include "mala/kernels/cuda/hopper/shared_rows.cuh"

namespace mala::gpu::hopper {

constexpr int kGradientTeams = kGradientTeamsOnHopper;

// Panels of each team; for all of them a triangle, turns and ones; broken rows of each. Rows as
// they come: values and gradients of outputs, twice; keys; queries.
template <class Kind>
struct QueryGradientSweepBlock {
  static constexpr int kTeam = SweepPanels::bytes(6);
  static constexpr int kTriangle = kGradientTeams * kTeam, kTurns = kTriangle + kTilePanelBytes;
  static constexpr int kOnes = kTurns + TileTurns<Kind>::kBytes, kBroken = kOnes + kNarrowOnesBytes;
  static constexpr int kBytes = kBroken + kGradientTeams * static_cast<int>(sizeof(BrokenRows));
  static_assert(kBytes <= kSharedBytes);
};

template <class Kind>
struct CausalQueryGradients {
  const Call<BFloat16>& call;
  const Task& task;
  const Team<kGroupThreads>& team;
  SweepPanels panels;
  int warp;
  TileTurns<Kind> turns;
  uint32_t triangle;
  RowStream<> keys, values, queries, gradients;
  BFloat16* d_query;
  SweepWeights* weights;        // of the tile's first token
  int seen;                     // keys before the tile
  int keys_left, queries_left;  // from the tile's first on
  SweepState<Kind> state;

  __device__ __forceinline__ CausalQueryGradients(const Call<BFloat16>& of, const Task& part,
                                                  const Team<kGroupThreads>& by, std::byte* memory,
                                                  const SweepTables& tables)
      : call(of),
        task(part),
        team(by),
        panels(memory),
        warp(TileLane(by).warp),
        turns(tables.turns, by),
        triangle(tables.triangle),
        keys(key_rows<Kind>(of.inputs.k, part, true), part.first, UnitShare::again(warp)),
        values(key_rows<Kind>(of.inputs.v, part, true), part.first, UnitShare::again(warp)),
        queries(query_rows<Kind>(of.inputs.q, part, true), part.first, UnitShare::again(warp)),
        gradients(query_rows<Kind>(of.out_gradient, part, true), part.first,
                  UnitShare::again(warp)),
        d_query(query_rows<Kind>(of.gradients.q, part, true)
                    .at(part.first + UnitShare::again(warp).row, 8 * UnitShare::again(warp).unit)),
        weights(weights_of(of, part.sequence, part.head) + part.first),
        seen(static_cast<int>(part.sequence.earlier + min(part.first, part.sequence.k_count))),
        keys_left(static_cast<int>(min(part.end, part.sequence.k_count) - part.first)),
        queries_left(static_cast<int>(part.end - part.first)),
        state{turns, warp, panels, {}, {}} {
    copy_others(0, keys_left, queries_left);
    copy_queries(queries_left);
  }

  __device__ __forceinline__ void run(const float* prefix, bool careful, uint32_t ones,
                                      BrokenRows* broken_rows) {
    state.start(prefix, call, task.sequence.earlier + task.first, team);
    for (int tile = 0;; ++tile) {
      wait_copies<1>();  // for all but the queries
      __syncwarp();
      int broken = kRowTokens;  // the first row from which on nothing is a number
      if (careful) broken = take_out(tile, broken_rows);
      stage_keys(tile);
      show_to_tensor_cores();
      team.sync();

      TileRows gradient;
      apply(tile, ones, gradient);
      if (broken < kRowTokens) take_in(tile, broken, gradient, *broken_rows);
      write_rows(gradient, TileLane::again(warp), UnitShare::again(warp), of_queries(),
                 {d_query, call.gradients.q.token_stride, queries_left});
      if (queries_left <= kRowTokens) break;
      d_query += kRowTokens * call.gradients.q.token_stride;
      weights += kRowTokens;
      copy_queries(queries_left - kRowTokens);
      const int counted = max(min(keys_left, kRowTokens), 0);
      seen += counted;
      keys_left -= kRowTokens;
      queries_left -= kRowTokens;
      team.sync();  // nobody reads panels of this tile any more
      state.go_on(tile + 1, counted, seen);
    }
  }

 private:
  __device__ __forceinline__ uint32_t of_values(int tile) const { return panels.raw(tile & 1); }
  __device__ __forceinline__ uint32_t of_gradients(int tile) const {
    return panels.raw(2 + (tile & 1));
  }
  __device__ __forceinline__ uint32_t of_keys() const { return panels.raw(4); }
  __device__ __forceinline__ uint32_t of_queries() const { return panels.raw(5); }
  // Keys before they turn.
  __device__ __forceinline__ uint64_t plain_keys() const {
    return panel(panels.address + (Kind::kTurns ? SweepPanels::kPlain : SweepPanels::kRotated));
  }
  __device__ __forceinline__ uint64_t rotated_keys() const {
    return panel(panels.address + SweepPanels::kRotated);
  }

  __device__ __forceinline__ void copy_others(int tile, int of_keys_left, int of_queries_left) {
    const UnitShare share = UnitShare::again(warp);
    keys.copy(call.inputs.k.token_stride, of_keys_left, share, of_keys());
    values.copy(call.inputs.v.token_stride, of_keys_left, share, of_values(tile));
    gradients.copy(call.out_gradient.token_stride, of_queries_left, share, of_gradients(tile));
    commit_copies();
  }
  __device__ __forceinline__ void copy_queries(int left) {
    queries.copy(call.inputs.q.token_stride, left, UnitShare::again(warp), of_queries());
    commit_copies();
  }

  // Keys before and after they turn become panels.
  __device__ __forceinline__ void stage_keys(int tile) {
    const TileLane lane = TileLane::again(warp);
    TileRows k = tile_features(of_keys(), lane, keys_left);
    __syncwarp();
    copy_others(tile + 1, keys_left - kRowTokens, queries_left - kRowTokens);
    if (Kind::kTurns) store_rows(panels.address + SweepPanels::kPlain, lane.places, k);
    turns.rotate(k);
    store_rows(panels.address + SweepPanels::kRotated, lane.places, k);
  }

  // Of the tile's queries: the gradients, and weights for the second sweep. Sums of keys are made
  // twice, since registers do not hold them in between.
  __device__ __forceinline__ void apply(int tile, uint32_t ones, TileRows& x) {
    TwoSums s, r, met, in_tile;
    TileRows q, by_values;
    float of_sum[2], of_centre[2];
    {
      TileRows sums;
      sum_keys_up(plain_keys(), sums);
      wait_copies<1>();  // for the queries
      __syncwarp();
      q = tile_features(of_queries(), TileLane::again(warp), kRowTokens);
      wait_products();
      add_vector(sums, panels.key_sum(tile));
      s.add(q, sums);
      const TileLane lane = TileLane::again(warp);
      if (lane.warp == 3 && lane.g == 7) keep_row(sums, 1, lane, panels.key_sum(tile + 1));

      Accumulator<8> means;
      sum_keys_up(rotated_keys(), sums);
      meet_state(tile, x, means);
      state.add(of_values(tile), ones);
      turns.rotate(q);
      wait_products<2>();
      if (warp == 3 && TileLane::again(warp).g == 7) keep_rotated(tile, sums);
      add_vector(sums, panels.rotated_sum(tile));
      r.add(q, sums);
      meet_values(tile, by_values);
      wait_products();
      share_means(means, of_sum, of_centre);
    }
    {
      const PartRows parts = mask(by_values, of_centre, in_tile);
      begin_products();
      multiply_parts<RightRows::kSummed>(x, parts, rotated_keys(), true);
      commit_products();
      wait_products();
    }
    TileRows rotated, plain;
    sum_keys_up(rotated_keys(), rotated);
    sum_keys_up(plain_keys(), plain);
    met.add(q, x);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      in_tile.of[half] = of_sum[half] + row_sum(in_tile.of[half]);
    }
    const RowFactors by = find_factors(s, r, met, in_tile, of_centre);
    wait_products<1>();
    add_vector(rotated, panels.rotated_sum(tile));
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int half = i / 2 % 2;
      x.c[i] = fmaf(by.product[half], x.c[i], by.rotated[half] * rotated.c[i]);
    }
    turns.template rotate<true>(x);
    wait_products();
    add_vector(plain, panels.key_sum(tile));
#pragma unroll
    for (int i = 0; i < 32; ++i) x.c[i] = fmaf(by.plain[i / 2 % 2], plain.c[i], x.c[i]);
    multiply_slopes(x, of_queries(), TileLane::again(warp));
    __syncwarp();
  }

  // Of each row the sum of the tile's keys up to it, not waited for. Those before the tile are
  // added afterwards: beside them tensor cores would cut off more.
  __device__ __forceinline__ void sum_keys_up(uint64_t of_tile, TileRows& to) const {
    begin_products();
    sum_rows_up(to, of_tile, panel(triangle));
    commit_products();
  }

  // g . v of all values of the tile, not waited for.
  __device__ __forceinline__ void meet_values(int tile, TileRows& to) const {
    const uint64_t right = panel(of_values(tile));
    const TileLane lane = TileLane::again(warp);
    LeftTwos g[4];
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      g[step] = load_matrices(of_gradients(tile) + lane.places.at(step));
    }
    begin_products();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      multiply<64, RightRows::kKept>(to.c, g[step], step_of<RightRows::kKept>(right, step),
                                     step > 0);
    }
    commit_products();
  }

  // S g of the sums before the tile; g times the values' sum and their centre.
  __device__ __forceinline__ void meet_state(int tile, TileRows& x, Accumulator<8>& means) const {
    const uint64_t left = panel(of_gradients(tile));
    const uint64_t matrix = panel(panels.address + SweepPanels::kMatrix);
    const uint64_t narrow = narrow_panel(panels.address + SweepPanels::kNarrow);
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const uint64_t g = moved(left, step * kStepRows * 2);
      const uint64_t right = step_of<RightRows::kSummed>(matrix, step);
      multiply<64, LeftRows::kKept>(x.c, g, moved(right, kTilePanelBytes), step > 0);
      multiply<64, LeftRows::kKept>(x.c, g, right, true);
      multiply<8, LeftRows::kKept>(means.c, g, moved(narrow, step * kStepRows * 16), step > 0);
    }
    commit_products();
  }
  // Of a row, lanes have the two parts of the one, then those of the other.
  __device__ __forceinline__ void share_means(const Accumulator<8>& means, float (&of_sum)[2],
                                              float (&of_centre)[2]) const {
    const TileLane lane = TileLane::again(warp);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float own = means.at(0, half, 0);
      own += __shfl_xor_sync(~0u, own, 1);
      const float other = __shfl_xor_sync(~0u, own, 2);
      of_sum[half] = lane.t < 2 ? own : other;
      of_centre[half] = lane.t < 2 ? other : own;
    }
  }

  // By the lanes that have the tile's last row.
  __device__ __forceinline__ void keep_rotated(int tile, const TileRows& sums) const {
    const TileLane lane = TileLane::again(warp);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      state.keep_rotated(tile, 4 * j + lane.t, {sums.at(j, 1, 0), sums.at(j, 1, 1)});
    }
  }

  // Values about their centre, of keys up to the row's own; their sums.
  __device__ __forceinline__ PartRows mask(TileRows& x, const float (&centre)[2],
                                           TwoSums& sums) const {
    PartRows parts = {};
    const TileLane lane = TileLane::again(warp);
    for_steps_up_to(lane.warp, [&](auto step) {
      constexpr int kStep = decltype(step)::value, kFirst = 8 * kStep;
#pragma unroll
      for (int i = kFirst; i < kFirst + 8; ++i) x.c[i] -= centre[i / 2 % 2];
      if (kStep == lane.warp) clear_unseen<kFirst>(x, lane);
      if (keys_left < kRowTokens) clear_missing<kStep>(x, lane);
#pragma unroll
      for (int i = kFirst; i < kFirst + 8; ++i) sums.of[i / 2 % 2] += x.c[i];
      parts.set(kStep, x);
    });
    return parts;
  }
  template <int kStep>
  __device__ __forceinline__ void clear_missing(TileRows& x, const TileLane& lane) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (16 * kStep + i / 4 * 8 + 2 * lane.t + i % 2 >= keys_left) x.c[8 * kStep + i] = 0.0f;
    }
  }

  // The query's gradient is product * S g + rotated * sum of rotated keys, turned back, + plain *
  // sum of keys.
  struct RowFactors {
    float product[2], rotated[2], plain[2];
  };
  // From what rows' dots tell. The weights are written, for values as they are: what they have in
  // common is in the ratio.
  __device__ __forceinline__ RowFactors find_factors(const TwoSums& s, const TwoSums& r,
                                                     const TwoSums& met, const TwoSums& by_values,
                                                     const float (&by_centre)[2]) const {
    const SharedRows rows;
    const TileLane lane = TileLane::again(warp);
    const int row = rows.lower ? lane.row(1) : lane.row(0);
    const float of_centre = rows.lower ? by_centre[1] : by_centre[0];
    const int of_tile = max(min(row + 1, keys_left), 0);
    const float inverse = nearly_inverse(static_cast<float>(seen + of_tile));
    const CausalWeights w =
        causal_weights(call, call.key_mean ? call.scale * inverse : call.scale, inverse,
                       rows.sum(s.of[0], s.of[1]), rows.sum(r.of[0], r.of[1]));
    const CausalSlopes slopes =
        causal_slopes(call, w, rows.sum(met.of[0], met.of[1]),
                      rows.lower ? by_values.of[1] : by_values.of[0], of_centre);
    // So small a number leaves nothing of a product.
    const float product = fabsf(w.product) < 1e-30f ? 1e-30f : w.product;
    if (lane.t % 2 == 0 && row < queries_left) {
      const float ratio = slopes.rotated * nearly_inverse(product) - of_centre;
      *reinterpret_cast<float4*>(weights + row) = {product, slopes.plain, ratio, w.mean};
    }
    RowFactors to;
    rows.tell(product, to.product);
    rows.tell(slopes.rotated, to.rotated);
    rows.tell(slopes.plain, to.plain);
    return to;
  }

  __device__ __forceinline__ int take_out(int tile, BrokenRows* rows) const {
    team.sync();  // everyone's rows are here
    if (!take_out_broken(of_keys(), of_values(tile), rows, team.thread, team.index + 1)) {
      return kRowTokens;
    }
    int first = rows->by_key;
    for (int i = 0; i < 64; ++i) first = min(first, rows->by_value[i]);
    return first;
  }
  // What was taken out has its effect: on this tile's queries, and on all after it.
  __device__ __forceinline__ void take_in(int tile, int first, TileRows& x,
                                          const BrokenRows& rows) {
    team.sync();
    const TileLane lane = TileLane::again(warp);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = lane.row(half);
      if (rows.by_value[row] < kRowTokens) state.values.c[2 * half] = NAN;
      if (row < first) continue;
#pragma unroll
      for (int j = 0; j < 8; ++j) x.at(j, half, 0) = x.at(j, half, 1) = NAN;
      if (lane.t > 0 || row >= queries_left) continue;
      weights[row].plain = weights[row].rotated = NAN;
      if (row >= rows.by_key) weights[row].product = weights[row].mean = NAN;
    }
    if (rows.by_key < kRowTokens && team.thread < 64) {
      panels.key_sum(tile + 1)[team.thread] = panels.rotated_sum(tile + 1)[team.thread] = NAN;
      state.tile_sum()[team.thread] = NAN;
    }
    team.sync();
  }
};

// One dimension: as many teams as all heads have parts.
template <class Kind>
__global__ void __launch_bounds__(kGradientTeams* kGroupThreads, 1)
    causal_query_gradients_kernel(const __grid_constant__ Call<BFloat16> call, unsigned heads,
                                  unsigned parts) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(kAlign) std::byte panels_of_block[];
  std::byte* memory = panels_of_block;
  const Team<kGroupThreads> team;
  using Block = QueryGradientSweepBlock<Kind>;
  const uint32_t at = shared_address(memory);
  const SweepTables tables{at + Block::kTriangle, at + Block::kTurns};
  wait_for_previous();
  let_next_begin();
  fill_ones(at + Block::kOnes, kNarrowOnesBytes);
  tables.template fill<Kind>(call);
  const SweepPart part = sweep_part(heads, kGradientTeams, team.index);
  if (part.part >= parts) return;
  const Task task = query_task(call, part.head, part.part);
  if (task.first == task.end) return;
  CausalQueryGradients<Kind> sweep(call, task, team, memory + team.index * Block::kTeam, tables);
  auto* broken = reinterpret_cast<BrokenRows*>(memory + Block::kBroken) + team.index;
  sweep.run(call.prefixes + sweep_slot(call, task, part.part) * call.layout.size(),
            keys_need_care(call, task, part.part, team), at + Block::kOnes, broken);
#else
  __trap();  // never launched there
#endif
}

}  // namespace mala::gpu::hopper
