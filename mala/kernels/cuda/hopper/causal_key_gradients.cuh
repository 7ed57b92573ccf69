// The second sweep of the causal backward on Hopper, from the last tile to the first: queries go
// into the gradients of the sums, and each tile's keys see the gradients after it and the queries
// within it, from their own on. A head of queries for each of keys.
#pragma once

#include "mala/kernels/cuda/hopper/causal_gradient_sums.cuh"
#include "mala/kernels/cuda/hopper/causal_query_gradients.cuh"

namespace mala::gpu::hopper {

// Panels of each team; for all of them a triangle and turns; broken rows of each. Rows as they
// come: gradients of outputs, twice; queries; keys; values.
template <class Kind>
struct KeyGradientSweepBlock {
  static constexpr int kTeam = SweepPanels::bytes(5);
  static constexpr int kTriangle = kGradientTeams * kTeam, kTurns = kTriangle + kTilePanelBytes;
  static constexpr int kBroken = kTurns + TileTurns<Kind>::kBytes;
  static constexpr int kBytes = kBroken + kGradientTeams * static_cast<int>(sizeof(BrokenQueries));
  static_assert(kBytes <= kSharedBytes);
};

template <class Kind>
struct CausalKeyGradients {
  const Call<BFloat16>& call;
  const Task& task;
  const Team<kGroupThreads>& team;
  SweepPanels panels;
  TileLane lane;
  TileTurns<Kind> turns;
  UnitShare share;
  uint32_t triangle;
  int last;                     // tile of the part
  int keys_left, queries_left;  // from the tile's first on
  RowStream<true> keys, values, queries, gradients;
  BFloat16 *d_key, *d_value;
  const SweepWeights* weights;  // of the tile's first token
  LaneWeights of_lane;
  GradientSums<Kind> sums;

  __device__ __forceinline__ CausalKeyGradients(const Call<BFloat16>& of, const Task& part,
                                                const Team<kGroupThreads>& by, std::byte* memory,
                                                const SweepTables& tables)
      : call(of),
        task(part),
        team(by),
        panels(memory),
        lane(by),
        turns(tables.turns, by),
        share(lane.warp),
        triangle(tables.triangle),
        last(static_cast<int>((part.end - part.first - 1) / kRowTokens)),
        keys_left(static_cast<int>(min(part.end, part.sequence.k_count) - first_of_last())),
        queries_left(static_cast<int>(part.end - first_of_last())),
        keys(key_rows<Kind>(of.inputs.k, part, true), first_of_last(), share),
        values(key_rows<Kind>(of.inputs.v, part, true), first_of_last(), share),
        queries(query_rows<Kind>(of.inputs.q, part, true), first_of_last(), share),
        gradients(query_rows<Kind>(of.out_gradient, part, true), first_of_last(), share),
        d_key(key_rows<Kind>(of.gradients.k, part, true)
                  .at(first_of_last() + share.row, 8 * share.unit)),
        d_value(key_rows<Kind>(of.gradients.v, part, true)
                    .at(first_of_last() + share.row, 8 * share.unit)),
        weights(weights_of(of, part.sequence, part.head) + first_of_last()),
        sums{turns, lane, panels, {}, {}, {}, {}} {
    copy_queries(last, queries_left);
    copy_keys(keys_left);
    of_lane.load(weights, lane, queries_left);
  }

  __device__ __forceinline__ void run(const float* suffix, bool careful, BrokenQueries* broken) {
    sums.start(suffix, call, last, task.sequence.earlier + first_of_last(), team);
    for (int tile = last;; --tile) {
      wait_copies<1>();  // for the queries; keys come after them
      __syncwarp();
      const bool is_broken = careful && take_out(tile, broken);
      stage_queries(tile);
      show_to_tensor_cores();
      team.sync();
      apply(tile, is_broken ? broken : nullptr);
      if (tile == 0) break;
      d_key -= kRowTokens * call.gradients.k.token_stride;
      d_value -= kRowTokens * call.gradients.v.token_stride;
      keys_left += kRowTokens;
      queries_left += kRowTokens;
      copy_keys(keys_left);
      sums.keep_features();
      team.sync();  // nobody reads panels of this tile any more
      if (is_broken) take_in(tile, *broken);
      sums.go_back(tile);
    }
  }

 private:
  __device__ __forceinline__ int64_t first_of_last() const {
    return task.first + int64_t{kRowTokens} * last;
  }
  __device__ __forceinline__ uint32_t of_gradients(int tile) const { return panels.raw(tile & 1); }
  __device__ __forceinline__ uint32_t of_queries() const { return panels.raw(2); }
  __device__ __forceinline__ uint32_t of_keys() const { return panels.raw(3); }
  __device__ __forceinline__ uint32_t of_values() const { return panels.raw(4); }
  __device__ __forceinline__ uint64_t weighted_queries() const {
    return panel(panels.address + SweepPanels::kRotated);
  }
  __device__ __forceinline__ uint64_t matrix() const {
    return panel(panels.address + SweepPanels::kMatrix);
  }
  __device__ __forceinline__ float* ratios() const { return panels.vector(6); }
  __device__ __forceinline__ float* means() const { return panels.vector(7); }

  __device__ __forceinline__ void copy_queries(int tile, int left) {
    queries.copy(call.inputs.q.token_stride, left, share, of_queries());
    gradients.copy(call.out_gradient.token_stride, left, share, of_gradients(tile));
    commit_copies();
  }
  __device__ __forceinline__ void copy_keys(int left) {
    keys.copy(call.inputs.k.token_stride, left, share, of_keys());
    values.copy(call.inputs.v.token_stride, left, share, of_values());
    commit_copies();
  }

  // Queries by their weights become panels, and weights of columns vectors and a narrow panel.
  __device__ __forceinline__ void stage_queries(int tile) {
    TileRows q = tile_features(of_queries(), lane, kRowTokens);
    __syncwarp();
    if (tile > 0) {
      copy_queries(tile - 1, queries_left + kRowTokens);
    } else {
      commit_copies();  // of none
    }
    store_weighted(SweepPanels::kPlain, q, of_lane.of[0].plain, of_lane.of[1].plain);
    turns.rotate(q);
    store_weighted(SweepPanels::kRotated, q, of_lane.of[0].product, of_lane.of[1].product);
    if (lane.t == 0) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const SweepWeights& w = of_lane.of[half];
        const int row = lane.row(half);
        ratios()[row] = w.rotated;
        means()[row] = w.mean;
        store_shared(panels.address + SweepPanels::kNarrow + 16 * row,
                     {parts_of(w.rotated), parts_of(w.mean), 0, 0});
      }
    }
    if (tile == 0) return;
    weights -= kRowTokens;
    of_lane.load(weights, lane, kRowTokens);
  }
  __device__ __forceinline__ void store_weighted(int to, const TileRows& x, float upper,
                                                 float lower) const {
    TileRows y;
#pragma unroll
    for (int i = 0; i < 32; ++i) y.c[i] = x.c[i] * (i / 2 % 2 ? lower : upper);
    store_rows(panels.address + to, lane.places, y);
  }

  // `broken` where something was taken out.
  __device__ __forceinline__ void apply(int tile, const BrokenQueries* broken) {
    wait_copies<1>();  // for keys and values
    __syncwarp();
    TileRows by_value, by_key, scores;
    const PartRows parts = meet_queries(by_value);
    const uint64_t g = panel(of_gradients(tile));
    begin_products();
    multiply_by<RightRows::kSummed>(by_value, parts, g);
    commit_products();
    meet_values(g, scores, by_key);
    sums.add(of_gradients(tile));
    wait_products<3>();
    add_vector(by_value, sums.values());
    if (broken) {
      spoil(by_value, [&](int column) { return max(broken->of_values, broken->by_value[column]); });
    }
    write_rows(by_value, lane, share, of_values(),
               {d_value, call.gradients.v.token_stride, keys_left});
    wait_products<2>();
    finish_keys(tile, broken ? broken->of_keys : -1, scores, by_key);
  }

  // What keys meet after the tile, for the gradients of values, and the weights that queries within
  // it have there.
  __device__ __forceinline__ PartRows meet_queries(TileRows& by_value) const {
    TileRows k = tile_features(of_keys(), lane, keys_left), scores;
    turns.rotate(k);
    const PartRows left(k);
    begin_products();
    multiply_parts<RightRows::kKept>(scores, left, weighted_queries(), false);
    commit_products();
    multiply_parts<RightRows::kKept>(by_value, left, matrix(), false);
    commit_products();
    wait_products<1>();
    const PartRows parts = weigh(scores, means());
    wait_products();
    return parts;
  }

  // What values meet, for the gradients of keys: within the tile, and after it. Not waited for.
  __device__ __forceinline__ void meet_values(uint64_t g, TileRows& scores,
                                              TileRows& by_key) const {
    LeftTwos v[4];
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      v[step] = load_matrices(of_values() + lane.places.at(step));
    }
    __syncwarp();
    begin_products();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      multiply<64, RightRows::kKept>(scores.c, v[step], step_of<RightRows::kKept>(g, step),
                                     step > 0);
    }
    commit_products();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const uint64_t right = step_of<RightRows::kSummed>(matrix(), step);
      multiply<64, RightRows::kSummed>(by_key.c, v[step], moved(right, kTilePanelBytes), step > 0);
      multiply<64, RightRows::kSummed>(by_key.c, v[step], right, true);
    }
    commit_products();
  }

  // The gradients of keys, with what queries within the tile have to do with them.
  __device__ __forceinline__ void finish_keys(int tile, int broken, TileRows& scores,
                                              TileRows& by_key) {
    TileRows later;  // plain queries from each on
    {
      const PartRows parts = weigh(scores, ratios());
      wait_products<1>();
      begin_products();
      multiply_parts<RightRows::kSummed>(by_key, parts, weighted_queries(), true);
      commit_products();
      begin_products();
      sum_rows_up<true>(later, panel(panels.address + SweepPanels::kPlain), panel(triangle));
      commit_products();
      wait_products<1>();
    }
    add_vector(by_key, panels.rotated_sum(tile));
    turns.template rotate<true>(by_key);
    wait_products();
    add_vector(later, panels.key_sum(tile));
    if (lane.warp == 0 && lane.g == 0) keep_row(later, 0, lane, panels.key_sum(tile - 1));
#pragma unroll
    for (int i = 0; i < 32; ++i) by_key.c[i] += later.c[i];
    multiply_slopes(by_key, of_keys(), lane);
    if (broken >= 0) spoil(by_key, [&](int) { return broken; });
    __syncwarp();
    write_rows(by_key, lane, share, of_keys(), {d_key, call.gradients.k.token_stride, keys_left});
  }

  __device__ __forceinline__ bool take_out(int tile, BrokenQueries* broken) {
    int bits[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const SweepWeights& w = of_lane.of[half];
      const bool all = !is_number(w.product) || !is_number(w.mean);
      const bool some = all || !is_number(w.plain) || !is_number(w.rotated);
      bits[half] = (some ? kSomeBroken : 0) | (all ? kAllBroken : 0);
    }
    team.sync();  // everyone's rows are here
    const bool found = take_out_broken_queries(of_queries(), of_gradients(tile), broken, bits[0],
                                               bits[1], team.index + 1);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      SweepWeights& w = of_lane.of[half];
      if (bits[half]) w.plain = w.rotated = 0.0f;
      if (bits[half] & kAllBroken || broken->is_broken[lane.row(half)]) w = {};
    }
    return found;
  }
  // What was taken out has its effect: on rows up to the last that hears of it, by column, and on
  // all tiles before.
  template <class LastOf>
  __device__ __forceinline__ void spoil(TileRows& x, LastOf last_of) const {
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int column = lane.column(i / 4) + i % 2;
      if (lane.row(i / 2 % 2) <= last_of(column)) x.c[i] = NAN;
    }
  }
  __device__ __forceinline__ void take_in(int tile, const BrokenQueries& broken) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (max(broken.of_values, broken.by_value[lane.row(half)]) >= 0) sums.later[half] = NAN;
    }
    if (broken.of_keys >= 0 && team.thread < 64) {
      panels.key_sum(tile - 1)[team.thread] = panels.rotated_sum(tile)[team.thread] = NAN;
    }
    team.sync();
  }

  // Numbers of queries from the row's own on, and what is added to those of a column.
  __device__ __forceinline__ PartRows weigh(TileRows& x, const float* columns) const {
    PartRows parts = {};
    for_steps_from(lane.warp, [&](auto step) {
      constexpr int kStep = decltype(step)::value, kFirst = 8 * kStep;
#pragma unroll
      for (int j = 2 * kStep; j < 2 * kStep + 2; ++j) {
        const float2 two = two_of(columns, j);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          x.at(j, half, 0) += two.x;
          x.at(j, half, 1) += two.y;
        }
      }
      if (kStep == lane.warp) clear_unseen<kFirst, true>(x, lane);
      parts.set(kStep, x);
    });
    return parts;
  }
};

// One dimension: as many teams as all heads have parts.
template <class Kind>
__global__ void __launch_bounds__(kGradientTeams* kGroupThreads, 1)
    causal_key_gradients_kernel(const __grid_constant__ Call<BFloat16> call, unsigned heads,
                                unsigned parts) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(kAlign) std::byte panels_of_block[];
  std::byte* memory = panels_of_block;
  const Team<kGroupThreads> team;
  using Block = KeyGradientSweepBlock<Kind>;
  const uint32_t at = shared_address(memory);
  const SweepTables tables{at + Block::kTriangle, at + Block::kTurns};
  wait_for_previous();
  let_next_begin();
  tables.template fill<Kind>(call);
  const SweepPart part = sweep_part(heads, kGradientTeams, team.index);
  if (part.part >= parts) return;
  const Task task = query_task(call, part.head, part.part);
  if (task.first == task.end) return;
  CausalKeyGradients<Kind> sweep(call, task, team, memory + team.index * Block::kTeam, tables);
  auto* broken = reinterpret_cast<BrokenQueries*>(memory + Block::kBroken) + team.index;
  sweep.run(call.suffixes + sweep_slot(call, task, part.part) * call.layout.size(),
            queries_need_care(call, task, team), broken);
#else
  __trap();  // never launched there
#endif
}

}  // namespace mala::gpu::hopper
