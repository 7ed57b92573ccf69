// The causal forward on Hopper: the blocks of a cluster have a part of a text, whose tiles their
// teams take in turn. A tile's queries see the sums before it, which the team before hands on, and
// the keys within it, up to their own.
#pragma once

#include "mala/kernels/cuda/hopper/causal_end.cuh"
#include "mala/kernels/cuda/hopper/causal_scores.cuh"

namespace mala::gpu::hopper {

// Panels of each team; for all of them turns and ones.
template <class Kind>
struct SweepBlock {
  static constexpr int kTurns = kSweepTeams * LinkPanels::kBytes;
  static constexpr int kOnes = kTurns + TileTurns<Kind>::kBytes, kBytes = kOnes + kNarrowOnesBytes;
  static_assert(kBytes <= kSharedBytes);
};

template <class Kind>
struct CausalSweep {
  using Block = SweepBlock<Kind>;

  const Call<BFloat16>& call;
  const Task& task;
  const Team<kGroupThreads>& team;
  LinkPanels panels;
  TileLane lane;
  TileTurns<Kind> turns;
  UnitShare share;
  int64_t first;                // token of the tile
  int step;                     // tokens from one to the next
  int end, all_keys;            // with those before the call: of the part, of the sequence
  int keys_left, queries_left;  // from the tile's first on
  TileSource keys, values, queries;
  BFloat16* out;
  uint32_t ones;
  Link link;

  // The tiles of the part that are this link's. Begins to copy.
  __device__ __forceinline__ CausalSweep(const Call<BFloat16>& of, const Task& part,
                                         const Team<kGroupThreads>& by, const Link& to,
                                         uint32_t memory)
      : call(of),
        task(part),
        team(by),
        panels(to.panels),
        lane(to.lane),
        turns(memory + Block::kTurns, by),
        share(lane.warp),
        first(part.first + to.index * kRowTokens),
        step(to.of_all * kRowTokens),
        end(static_cast<int>(part.sequence.earlier + part.end)),
        all_keys(static_cast<int>(part.sequence.earlier + part.sequence.k_count)),
        keys_left(static_cast<int>(min(part.end, part.sequence.k_count) - first)),
        queries_left(static_cast<int>(part.end - first)),
        keys(key_rows(of.inputs.k), first, share),
        values(key_rows(of.inputs.v), first, share),
        queries(query_rows<Kind>(of.inputs.q, part, true), first, share),
        out(query_rows<Kind>(of.out, part, true).at(first + share.row, 8 * share.unit)),
        ones(memory + Block::kOnes),
        link(to) {
    if (queries_left <= 0) return;
    copy_keys(keys_left);
    copy_values(keys_left);
  }

  // Before the cluster's threads wait for each other.
  __device__ __forceinline__ void prepare() const {
    if (team.thread == 0) {
      panels.vectors_box().open(LinkPanels::kWriters);
      panels.matrix_box().open(LinkPanels::kWriters);
    }
    if (Kind::kTurns && lane.warp == 1 && queries_left > 0) write_first_turns(0, first);
  }

  __device__ __forceinline__ void run(BrokenRows* broken_rows) {
    for (int turn = 0; queries_left > 0; ++turn) {
      wait_copies<1>();  // for the keys; values come after them
      __syncwarp();
      bool all_numbers = stage_keys(turn);
      wait_copies<1>();  // for the values
      all_numbers &= are_numbers(of_values(), share);
      show_to_tensor_cores();
      const bool broken = team.any(!all_numbers) && stage_without_broken(turn, broken_rows);

      TileRows found;
      SweepFactors factors;
      apply(turn, broken ? broken_rows : nullptr, found, factors);
      team.sync();  // nobody reads panels of this tile any more
      if (broken) take_in_broken(found, *broken_rows);
      write(found, factors);
      first += step;
      keys_left -= step;
      queries_left -= step;
      if (queries_left <= 0) break;
      values.go_on(step, call.inputs.v.token_stride);
      copy_values(keys_left);
    }
  }

 private:
  __device__ __forceinline__ Rows<const BFloat16> key_rows(
      const HeadsView<const BFloat16>& view) const {
    return rows_of(view, task.sequence.batch, task.kv_head, task.sequence.k_first, true);
  }
  __device__ __forceinline__ uint32_t of_values() const { return panels.raw(0); }
  __device__ __forceinline__ uint32_t coming() const { return panels.raw(1); }
  __device__ __forceinline__ uint64_t rotated_keys() const {
    return panel(panels.address + LinkPanels::kRotated);
  }
  __device__ __forceinline__ void copy_keys(int left) {
    keys.copy(call.inputs.k.token_stride, left, share, coming());
    commit_copies();
  }
  __device__ __forceinline__ void copy_values(int left) {
    values.copy(call.inputs.v.token_stride, left, share, of_values());
    commit_copies();
  }

  // Keys before and after they turn become panels, and the latter sums of each warp. Whether the
  // lane saw only numbers.
  __device__ __forceinline__ bool stage_keys(int turn) {
    TileRows k = tile_features(coming(), lane, keys_left);
    __syncwarp();
    queries.copy(call.inputs.q.token_stride, queries_left, share, coming());
    commit_copies();
    if (Kind::kTurns) store_rows(panels.address + LinkPanels::kPlain, lane.places, k);
    rotate(turn, k);
    store_rows(panels.address + LinkPanels::kRotated, lane.places, k);
    const float2 sums = warp_column_sums(k);
    store_shared_two(panels.of_warp(lane.warp) + 4 * lane.column(lane.g), sums);
    return is_number(sums.x) && is_number(sums.y);
  }
  // Stages the tile's keys once more, and leaves out what is no number. Whether there was such.
  __device__ __forceinline__ bool stage_without_broken(int turn, BrokenRows* rows) {
    wait_copies<0>();
    __syncwarp();
    copy_keys(keys_left);
    wait_copies<0>();
    team.sync();
    const bool found = take_out_broken(coming(), of_values(), rows, team.thread, team.index + 1);
    stage_keys(turn);
    show_to_tensor_cores();
    team.sync();
    return found;
  }

  // The tile's queries: what they find, still without their factors. `broken` has what was left
  // out.
  __device__ __forceinline__ void apply(int turn, const BrokenRows* broken, TileRows& found,
                                        SweepFactors& factors) {
    SweepScores sums;
    TileSums tile;
    TileRows q, scores;
    sum_tile(tile, q, sums);
    if (broken) tile.spoil(*broken, lane);
    const TileKeys seen{keys_before(), max(min(keys_left, kRowTokens), 0)};
    receive_vectors(turn, seen, tile, q, sums);
    receive_matrix(turn, seen, tile, q, found);
    {
      const PartRows left(q);
      begin_products();
      multiply_parts<RightRows::kKept>(scores, left, rotated_keys(), false);
      commit_products();
      wait_products();
    }

    mask(scores, lane, sums.in_tile);
    factors = factors_of<Kind>(call, lane, seen.before, keys_left, sums);
    const PartRows weights = weigh(scores, lane, factors);
    const LeftTwos of_means = left_of_means(factors.ratio, factors.base);
    begin_products();
    multiply_means(found, of_means, panels.means(turn));
    multiply_by<RightRows::kSummed>(found, weights, panel(of_values()));
    commit_products();
    wait_products();
  }

  // The sums over the tile's keys, its queries, and what these meet of plain keys up to their own.
  __device__ __forceinline__ void sum_tile(TileSums& tile, TileRows& q, SweepScores& sums) {
    TileRows prefixes;
    tile.rotated_keys = panels.sum_of_warps();
    const TriangleRows triangle(lane.warp);
    begin_products();
    if (Kind::kTurns) {
      sum_rows_up(prefixes, triangle, panel(panels.address + LinkPanels::kPlain));
    }
    tile.multiply_keys(panel(of_values()), rotated_keys(), ones);
    wait_copies<0>();
    __syncwarp();
    q = tile_features(coming(), lane, kRowTokens);
    __syncwarp();
    keys.go_on(step, call.inputs.k.token_stride);
    queries.go_on(step, call.inputs.q.token_stride);
    copy_keys(keys_left - step);
    wait_products();
    tile.keys = {};
    if (!Kind::kTurns) return;
    sums.s.add(q, prefixes);
    if (lane.warp == 3) tile.keys = last_row(prefixes);
  }

  // To the next tile, or to the state.
  __device__ __forceinline__ bool hands_on() const {
    return queries_left > kRowTokens || call.state_after;
  }

  // Those before the tile. Then queries turn.
  __device__ __forceinline__ void receive_vectors(int turn, const TileKeys& seen, TileSums& tile,
                                                  TileRows& q, SweepScores& sums) const {
    panels.vectors_box().wait(turn);
    link.find_centre(turn, seen, tile);
    if (hands_on()) link.pass_vectors(turn, tile);
    if (Kind::kTurns) {
      if (lane.warp == 1 && queries_left > step) write_first_turns(turn + 1, first + step);
      add(sums.s, q, panels.keys(turn));
      rotate(turn, q);
    }
    add(sums.r, q, panels.rotated_keys(turn));
  }

  // That before the tile, which queries meet, and the team after this one receives with the tile's.
  __device__ __forceinline__ void receive_matrix(int turn, const TileKeys& seen, TileSums& tile,
                                                 const TileRows& q, TileRows& found) const {
    tile.take_about_centre();
    panels.matrix_box().wait(turn);
    TileRows matrix = link.received();
    if (seen.moves_centre()) link.move_centre(turn, tile.centre, matrix);
    show_to_tensor_cores();
    begin_products();
    multiply_received(found, q, panels);
    commit_products();
    if (hands_on()) {
#pragma unroll
      for (int i = 0; i < 32; ++i) matrix.c[i] += tile.matrix.c[i];
      link.pass_matrix(matrix);
    }
    wait_products();
    if (hands_on()) link.tell_of_matrix();
  }

  // By one warp: how the first token of tile number `turn` turns.
  __device__ __forceinline__ void write_first_turns(int turn, int64_t token) const {
    const unsigned pair = threadIdx.x % 32;
    const OneTurn first_turn(call.q_turning, task.sequence.earlier + token);
    store_shared_two(panels.first_turns(turn) + 8 * pair, first_turn.of(static_cast<int>(pair)));
  }
  // As the rows' positions tell: by their places in the tile, and by its first one.
  __device__ __forceinline__ void rotate(int turn, TileRows& x) const {
    if (!Kind::kTurns) return;
    turns.rotate(x);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float2 by = load_shared_two(panels.first_turns(turn) + 32 * j + 8 * lane.t);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        rotate_pair<false>(x.at(j, half, 0), x.at(j, half, 1), by.x, by.y);
      }
    }
  }
  static __device__ __forceinline__ void add(TwoSums& to, const TileRows& rows, uint32_t vector) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      to.add(rows, j, load_shared_two(vector + 32 * j + threadIdx.x % 4 * 8));
    }
  }
  // Of all tokens before the tile's first.
  __device__ __forceinline__ int keys_before() const { return min(end - queries_left, all_keys); }

  // What was left out has its effect on this tile's queries.
  __device__ __forceinline__ void take_in_broken(TileRows& found, const BrokenRows& broken) const {
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
    }
  }

  __device__ __forceinline__ void write(TileRows& found, const SweepFactors& factors) {
#pragma unroll
    for (int i = 0; i < 32; ++i) found.c[i] *= factors.factor[i / 2 % 2];
    if (Kind::kTail) add_tail(found);
    write_rows(found, lane, share, panels.address + LinkPanels::kPlain,
               {out, call.out.token_stride, queries_left});
    out += step * call.out.token_stride;
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

// Grid (heads of queries, blocks of their parts), those of a part a cluster.
template <class Kind>
__global__ void __launch_bounds__(kSweepTeams* kGroupThreads, 1)
    causal_forward_kernel(const __grid_constant__ Call<BFloat16> call) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(kAlign) std::byte panels_of_block[];
  std::byte* memory = panels_of_block;
  const Team<kGroupThreads> team;
  using Block = SweepBlock<Kind>;
  const uint32_t at = shared_address(memory);
  wait_for_previous();
  let_next_begin();
  const Cluster cluster;
  const int64_t part = blockIdx.y / cluster.size;
  const Task task = query_task(call, blockIdx.x, part);
  if (task.first == task.end) return;
  const Link link = link_of(cluster, team, at);
  CausalSweep<Kind> sweep(call, task, team, link, at);
  fill_ones(at + Block::kOnes, kNarrowOnesBytes);
  if (Kind::kTurns) TileTurns<Kind>::fill(call.q_turning, at + Block::kTurns);
  sweep.prepare();
  show_to_tensor_cores();
  cluster.sync();
  if (link.index == 0) {
    const int64_t slot = sweep_slot(call, task, part);
    link.begin(call.layout, call.prefixes ? call.prefixes + slot * call.layout.size() : nullptr);
  }
  sweep.run(reinterpret_cast<BrokenRows*>(memory + team.index * LinkPanels::kBytes +
                                          LinkPanels::kBroken));
  if (call.state_after) leave_state<Kind>(call, at);
  cluster.sync();  // nobody writes to those who left
#else
  __trap();  // never launched there
#endif
}

}  // namespace mala::gpu::hopper
