// The causal forward on Hopper: each team sweeps over the tokens of a part. Its queries see the
// sums before a tile and the keys within it, up to their own.
#pragma once

#include "mala/kernels/cuda/hopper/causal_keys.cuh"

namespace mala::gpu::hopper {

constexpr int kSweepTeams = kSweepTeamsOnHopper;

// Panels of each team; for all of them turns and ones; broken rows of each.
template <class Kind>
struct SweepBlock {
  static constexpr int kTurns = kSweepTeams * SweepPanels::kBytes;
  static constexpr int kOnes = kTurns + TileTurns<Kind>::kBytes, kBroken = kOnes + kOnesBytes;
  static constexpr int kBytes = kBroken + kSweepTeams * static_cast<int>(sizeof(BrokenRows));
  static_assert(kBytes <= kSharedBytes);
};

// The part of one team: its index goes over all heads, then over their parts.
struct SweepPart {
  int64_t head, part;
};
__device__ __forceinline__ SweepPart sweep_part(unsigned heads, int team) {
  const unsigned index = blockIdx.x * kSweepTeams + team;
  return {index % heads, index / heads};
}

// Whether something in the part may be no number, so that its tiles have to be looked at: as far as
// its sums tell, where there are any.
__device__ __forceinline__ bool needs_care(const Call<BFloat16>& call, const Task& task,
                                           int64_t part, const Team<kGroupThreads>& team) {
  if (!call.parts) return true;
  const Sequence& sequence = task.sequence;
  const int64_t slot =
      sequence.k_parts_before * call.kv_heads + task.kv_head * sequence.k_parts + part;
  const float* sums = call.parts + slot * call.layout.size();
  bool bad = false;
  if (part < sequence.k_parts) {
    const int i = team.thread;
    bad = !(fabsf(sums[(i < 64 ? call.layout.keys() : call.layout.values()) + i % 64]) <= 3.4e38f);
  }
  int any;
  asm volatile("{.reg .pred p; setp.ne.b32 p, %1, 0; bar.red.popc.u32 %0, %2, %3, p;}"
               : "=r"(any)
               : "r"(static_cast<int>(bad)), "r"(team.index + 1), "n"(kGroupThreads)
               : "memory");
  return any > 0;
}

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
  const BFloat16 *keys, *values, *queries;
  BFloat16* out;
  int seen;                     // keys before the tile
  int keys_left, queries_left;  // from the tile's first on
  SweepState<Kind> state;

  __device__ __forceinline__ CausalSweep(const Call<BFloat16>& of, const Task& part,
                                         const Team<kGroupThreads>& by, std::byte* memory,
                                         uint32_t table)
      : call(of),
        task(part),
        team(by),
        panels(memory),
        lane(by),
        turns(table, by),
        share(lane.warp),
        keys(key_rows(of.inputs.k).at(part.first + share.row, 8 * share.unit)),
        values(key_rows(of.inputs.v).at(part.first + share.row, 8 * share.unit)),
        queries(
            query_rows<Kind>(of.inputs.q, part, true).at(part.first + share.row, 8 * share.unit)),
        out(query_rows<Kind>(of.out, part, true).at(part.first + share.row, 8 * share.unit)),
        seen(static_cast<int>(part.sequence.earlier + part.first)),
        keys_left(static_cast<int>(min(part.end, part.sequence.k_count) - part.first)),
        queries_left(static_cast<int>(part.end - part.first)),
        state{of.q_turning, lane, panels, {}, {}, {}} {
    copy_keys(keys_left);
    copy_values(keys_left);
  }

  __device__ __forceinline__ void run(const float* prefix, bool careful, uint32_t ones,
                                      BrokenRows* broken_rows) {
    state.start(prefix, call.layout, task.sequence.earlier + task.first, team);
    for (int tile = 0;; ++tile) {
      wait_copies<1>();  // for the keys; values come after them
      __syncwarp();
      bool broken = false;
      if (careful) {
        wait_copies<0>();
        team.sync();
        broken = take_out_broken(panels.memory + SweepPanels::kComing,
                                 panels.memory + SweepPanels::kValues, broken_rows, team.thread,
                                 team.index + 1);
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
      state.go_on(tile + 1, counted);
    }
  }

 private:
  __device__ __forceinline__ Rows<const BFloat16> key_rows(
      const HeadsView<const BFloat16>& view) const {
    return rows_of(view, task.sequence.batch, task.kv_head, task.sequence.k_first, true);
  }
  __device__ __forceinline__ void copy_keys(int left) {
    copy_rows(keys, call.inputs.k.token_stride, left, share, panels.address + SweepPanels::kComing);
  }
  __device__ __forceinline__ void copy_values(int left) {
    copy_rows(values, call.inputs.v.token_stride, left, share,
              panels.address + SweepPanels::kValues);
  }
  __device__ __forceinline__ void copy_queries(int left) {
    copy_rows(queries, call.inputs.q.token_stride, left, share,
              panels.address + SweepPanels::kComing);
  }

  // Keys before and after they turn become panels, and the latter sums of each warp.
  __device__ __forceinline__ void stage_keys() {
    TileRows k = tile_features(panels.address + SweepPanels::kComing, lane, keys_left);
    __syncwarp();
    copy_queries(queries_left);
    if (Kind::kTurns) store_rows(panels.address + SweepPanels::kPlain, lane.places, k);
    turns.rotate(k);
    store_rows(panels.address + SweepPanels::kRotated, lane.places, k);
    const float2 sums = warp_column_sums(k);
    *reinterpret_cast<float2*>(panels.warp_sum(lane.warp) + lane.column(lane.g)) = sums;
  }

  // The tile's queries: what they find, still without their factors.
  __device__ __forceinline__ void apply(int tile, uint32_t ones, TileRows& found,
                                        SweepFactors& factors) {
    TwoSums s, r;
    PartRows left;
    {
      TileRows prefixes;
      if (Kind::kTurns) start_prefixes(tile, prefixes);
      begin_products();
      if (Kind::kTurns) {
        add_rows_up(prefixes, panel(panels.address + SweepPanels::kPlain), lane.warp);
        commit_products();
      }
      state.add(ones);
      wait_copies<0>();
      __syncwarp();
      TileRows q = tile_features(panels.address + SweepPanels::kComing, lane, kRowTokens);
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
    if (lane.warp == 0) state.add_rotated(tile + 1);

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
    multiply_by<RightRows::kSummed>(found, weights, panel(panels.address + SweepPanels::kValues));
    commit_products();
    wait_products();
  }

  __device__ __forceinline__ void start_prefixes(int tile, TileRows& prefixes) const {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float2 sum = two_of(panels.key_sum(tile), j);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        prefixes.at(j, half, 0) = sum.x;
        prefixes.at(j, half, 1) = sum.y;
      }
    }
  }

  // s of both rows; and the last row of all is what the next tile begins with.
  __device__ __forceinline__ void meet_prefixes(int tile, const TileRows& prefixes,
                                                const TileRows& q, TwoSums& s) const {
#pragma unroll
    for (int i = 0; i < 32; ++i) s.of[i / 2 % 2] = fmaf(q.c[i], prefixes.c[i], s.of[i / 2 % 2]);
    if (lane.warp < 3 || lane.g < 7) return;
    float* to = panels.key_sum(tile + 1);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      *reinterpret_cast<float2*>(to + lane.column(j)) = {prefixes.at(j, 1, 0),
                                                         prefixes.at(j, 1, 1)};
    }
  }

  // Scores with later tokens become zero; the sums of the others.
  __device__ __forceinline__ void mask(TileRows& scores, TwoSums& sums) const {
    for_steps([&](auto step) {
      constexpr int kStep = decltype(step)::value, kFirst = 8 * kStep;
      if (kStep == lane.warp) clear_unseen<kFirst>(scores);
#pragma unroll
      for (int i = kFirst; i < kFirst + 8; ++i) sums.of[i / 2 % 2] += scores.c[i];
    });
  }

  // scores + ratio, of tokens up to the row's own. The two nearly cancel where r is large, and cost
  // fewer digits here than in the sums over keys.
  __device__ __forceinline__ PartRows weigh(TileRows& scores, const SweepFactors& factors) const {
    PartRows weights = {};
    for_steps([&](auto step) {
      constexpr int kStep = decltype(step)::value, kFirst = 8 * kStep;
#pragma unroll
      for (int i = kFirst; i < kFirst + 8; ++i) scores.c[i] += factors.ratio[i / 2 % 2];
      if (kStep == lane.warp) clear_unseen<kFirst>(scores);
      weights.set(kStep, scores);
    });
    return weights;
  }

  // Calls body(step) for the steps of 16 columns that rows of this warp see something of.
  template <class Body>
  __device__ __forceinline__ void for_steps(Body body) const {
    body(std::integral_constant<int, 0>{});
    if (lane.warp >= 1) body(std::integral_constant<int, 1>{});
    if (lane.warp >= 2) body(std::integral_constant<int, 2>{});
    if (lane.warp >= 3) body(std::integral_constant<int, 3>{});
  }

  // Of the step on the diagonal, whose numbers begin at kFirst.
  template <int kFirst>
  __device__ __forceinline__ void clear_unseen(TileRows& scores) const {
    asm volatile("" ::"n"(kFirst));  // or steps would become one, and no registers would hold it
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int row = lane.g + i / 2 % 2 * 8, column = i / 4 * 8 + 2 * lane.t + i % 2;
      if (column > row) scores.c[kFirst + i] = 0.0f;
    }
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
      const float inverse = __frcp_rn(static_cast<float>(seen + of_tile));
      const CausalWeights weights = causal_weights(
          call, call.key_mean ? call.scale * inverse : call.scale, inverse, plain, rotated);
      // So small a number leaves nothing of a product.
      to.factor[half] = fabsf(weights.product) < 1e-30f ? 1e-30f : weights.product;
      to.ratio[half] = __fdividef(weights.mean, to.factor[half]);
      to.base[half] = __fdividef(weights.base, to.factor[half]) -
                      fmaf(to.ratio[half], static_cast<float>(of_tile), scores);
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

  // By way of a panel, so that rows leave as a whole.
  __device__ __forceinline__ void write(TileRows& found, const SweepFactors& factors) {
#pragma unroll
    for (int i = 0; i < 32; ++i) found.c[i] *= factors.factor[i / 2 % 2];
    if (Kind::kTail) add_tail(found);
    const uint32_t stage = panels.address + SweepPanels::kPlain;
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      LeftTwos twos;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = pair_of(step, i);
        twos.at[i] = pack<BFloat16>(found.c[at], found.c[at + 1]);
      }
      store_matrices(stage + lane.places.at[step], twos);
    }
    __syncwarp();
    const int64_t stride = call.out.token_stride;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint4 x = load_shared(stage + share.place(i));
      if (share.row + 4 * i < queries_left) *reinterpret_cast<uint4*>(out + 4 * i * stride) = x;
    }
    out += kRowTokens * stride;
    __syncwarp();
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
  const uint32_t table = shared_address(memory) + Block::kTurns;
  wait_for_previous();
  let_next_begin();
  fill_ones(shared_address(memory) + Block::kOnes);
  if (Kind::kTurns) TileTurns<Kind>::fill(call.q_turning, table);
  __syncthreads();
  const SweepPart part = sweep_part(heads, team.index);
  if (part.part >= parts) return;
  const Task task = query_task(call, part.head, part.part);
  if (task.first == task.end) return;
  CausalSweep<Kind> sweep(call, task, team, memory + team.index * SweepPanels::kBytes, table);
  const Sequence& sequence = task.sequence;
  const int64_t slot =
      sequence.q_parts_before * call.kv_heads + task.kv_head * sequence.q_parts + part.part;
  auto* broken = reinterpret_cast<BrokenRows*>(memory + Block::kBroken) + team.index;
  sweep.run(call.prefixes + slot * call.layout.size(), needs_care(call, task, part.part, team),
            shared_address(memory) + Block::kOnes, broken);
#else
  __trap();  // never launched there
#endif
}

}  // namespace mala::gpu::hopper
