// The pass of the backward over queries on Hopper: writes their gradients and sums that of the
// state. Usual calls in bfloat16 alone; what a tail makes of the gradients that come is done
// before.
//
// Larger heads are shared by warpgroups: each has some columns of all rows of a tile, and what a
// row needs of all columns they tell each other.
#pragma once

#include "mala/kernels/cuda/hopper/near_turns.cuh"
#include "mala/kernels/cuda/hopper/query_sums.cuh"
#include "mala/kernels/cuda/weights.cuh"

namespace mala::gpu::hopper {

// Of a block: its teams, the transpose of S_c, mean values in two parts, vectors and turns.
template <int kDim, int kTeams>
struct QueryGradientBlock {
  using Memory = QueryGradientTeam<kDim>;
  static constexpr int kThreads = kTeams * Memory::kThreads;
  static constexpr int kAtOnce = teams_on_hopper(kDim).query_gradients / kTeams;
  static constexpr int kTransposed = kTeams * Memory::kBytes;
  static constexpr int kMeans = kTransposed + Matrix<kDim>::kBytes;
  static constexpr int kVectors = kMeans + 16 * kDim;
  static constexpr int kTurns = kVectors + QueryVectors<kDim>::kBytes;
  static constexpr int kBytes = kTurns + kNearBytesOfQueries;
  static_assert(fit_at_once(kAtOnce, kBytes));
};

// What a row's gradient has of S_c g, of the rotated and of the plain key.
struct RowGradient {
  float product, rotated_key, key, ds;
};
template <class Kind>
__device__ __forceinline__ RowGradient row_gradient(const Call<BFloat16>& call,
                                                    const RowWeights& weights, float met,
                                                    float mean_part) {
  const float ds = fmaf(weights.product_slope, met, weights.mean_slope * mean_part);
  const float rotated = call.centred() ? 0.0f : weights.gain * mean_part;
  const bool late = call.rotated_magnitude();
  // Without turns there is one key for both.
  return {.product = weights.product,
          .rotated_key = late ? rotated + ds : rotated,
          .key = Kind::kTurns ? (late ? 0.0f : ds) : rotated + ds,
          .ds = ds};
}

// The vectors of a head and the transpose of S_c, from its state. The matrix is asked for before
// anyone waits for vectors.
template <int kThreads, int kDim>
__device__ __forceinline__ void fill_vectors_and_transposed(const Call<BFloat16>& call,
                                                            const float* state,
                                                            const HeadScales& scales,
                                                            const QueryVectors<kDim>& head,
                                                            const Matrix<kDim>& transposed) {
  const auto gathered =
      transposed.template gather<kThreads>([&](unsigned k, unsigned unit, int pair) -> float2 {
        const float* from = state + (first_column(unit) + 8 * pair) * kDim + k;
        return {from[0], from[kDim]};
      });
  fill_vectors(call, state, scales, head);
  transposed.fill(gathered, [&](float2 two, unsigned k, unsigned unit, int pair) -> float2 {
    const unsigned feature = first_column(unit) + 8 * pair;
    const float mean = head.value_mean[k];
    return {fmaf(-head.rotated_sum[feature], mean, two.x),
            fmaf(-head.rotated_sum[feature + 1], mean, two.y)};
  });
}

// The pass of a team over its tiles. Begins to copy as soon as it is made.
template <int kDim, int kTeams, class Kind>
struct QueryGradientPass {
  using Block = QueryGradientBlock<kDim, kTeams>;
  using Memory = QueryGradientTeam<kDim>;
  using S = typename Memory::S;
  static constexpr int kBlocks = Memory::kBlocks, kGroups = Memory::kGroups;
  static constexpr int kThreads = Memory::kThreads, kStep = kTeams * kRowTokens;

  Team<kThreads> team;
  int tiles, group, row, column;  // the lane's first
  uint32_t block, memory, slots;
  TileCopier<kDim, kThreads> gradients;
  RowCursor<const BFloat16> queries;

  __device__ __forceinline__ QueryGradientPass(const Call<BFloat16>& call, const Task& task,
                                               uint32_t at)
      : tiles(team.tiles(task, kTeams)),
        group(__shfl_sync(~0u, team.thread / kGroupThreads, 0)),
        row(team.row() % kRowTokens),
        column(group * Memory::kCols + team.thread % 4 * 8),
        block(at),
        memory(at + team.index * Memory::kBytes),
        slots(memory + Memory::kSlots + 16 * team.thread),
        gradients(query_rows<Kind>(call.out_gradient, task, true), task, team),
        queries(query_rows<Kind>(call.inputs.q, task, true), task, team.index * kRowTokens + row,
                column) {
    if (tiles > 0) copy(0);  // else its place is that of sums at once
  }

  __device__ __forceinline__ void copy(int tile) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const BFloat16* from = queries.at(8 * half);
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        copy_async(slot(half, block), from + block * kBlockCols, queries.exists(8 * half));
      }
    }
    queries.go_on(kStep);
    gradients.copy(memory + tile % 2 * S::kTileBytes, kStep);
    commit_copies();
  }

  // All tiles, into `to`, which may lie where they do.
  __device__ __forceinline__ void run(const Call<BFloat16>& call, const Turning& turning,
                                      const Task& task, float c, const QueryVectors<kDim>& head,
                                      float* rows, float* to) {
    const uint64_t stages = panel(memory);
    const int first = team.index * kRowTokens + row;
    const RowExchange<kDim, 2> magnitudes{rows};
    const RowExchange<kDim, 1> products{rows + 2 * kRowTokens * kGroups};
    QuerySums<kDim> sums(memory, group);
    Eight keys[kBlocks] = {};  // sums of ds_i phi(q_i)
    RowCursor<BFloat16> d_query(query_rows<Kind>(call.gradients.q, task, true), task, first,
                                column);
    LaneTokens<Kind, 1> tokens(turning, task, task.sequence.q_width, first, kStep);
    for (int tile = 0; tile < tiles; ++tile) {
      wait_copies<0>();
      uint4 raw[2][kBlocks];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
          raw[half][block] = load_shared(slot(half, block));
        }
      }
      show_to_tensor_cores();
      team.sync();  // everyone's gradients are here, and everyone is done with the tile before
      const uint64_t g = moved(stages, tile % 2 * S::kTileBytes);
      Accumulator<Memory::kCols> x;
      Accumulator<8> mean_parts;
      meet_state(x, mean_parts, g);

      const Spot spots[2] = {tokens.spot(0), tokens.spot(1)};
      Features<8> phi[kBlocks][2];
      Magnitude parts[2];
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        const int at = column + block * kBlockCols;
        const MeanKeys<8> means(head, at);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          phi[block][half] =
              meet_keys<Kind>(call, turning, means, spots[half], at, raw[half][block], parts[half]);
        }
      }
      if (tile + 1 < tiles) copy(tile + 1);  // only now: loads would wait for copies before them
      float of_rows[2][2] = {{row_sum(parts[0].s), row_sum(parts[0].r)},
                             {row_sum(parts[1].s), row_sum(parts[1].r)}};
      if (kGroups > 1) {
        magnitudes.tell(group, row, of_rows[0]);
        magnitudes.tell(group, row + 8, of_rows[1]);
        team.sync();
        magnitudes.sum(row, of_rows[0]);
        magnitudes.sum(row + 8, of_rows[1]);
      }
      RowWeights weights[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        weights[half] = weights_of_sums<Kind>(call, c, {of_rows[half][0], of_rows[half][1]});
        if (!d_query.exists(8 * half)) weights[half] = {};
        if (team.thread % 4 == 0 && group == 0) {
          store_in_row(memory + Memory::kWeights, row + 8 * half, weights[half].mean);
        }
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
          const int unit = column / 8 + 4 * block;
          const uint32_t at = memory + Memory::kFeatures + unit / 8 * S::kPanelBytes +
                              in_panel(row, unit % 8) + 8 * half * kPanelRowBytes;
          store_parts(at, at + S::kTileBytes,
                      scaled(phi[block][half].turned, weights[half].product));
        }
      }
      show_to_tensor_cores();
      wait_products();
      float met[2][1];  // R phi(q) . S_c g
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float part = 0.0f;
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
          part = dot(phi[block][half].turned, eight_of(x, half, block), part);
        }
        met[half][0] = row_sum(part);
        if (kGroups > 1) products.tell(group, row + 8 * half, met[half]);
      }
      team.sync();  // everyone's weighted features are here too
      sums.add(g);
      float ds[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (kGroups > 1) products.sum(row + 8 * half, met[half]);
        const RowGradient by =
            row_gradient<Kind>(call, weights[half], met[half][0], sum_of_row(mean_parts, half));
        ds[half] = by.ds;
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
          const int at = column + block * kBlockCols;
          const MeanKeys<8> means(head, at);
          const Features<8>& of = phi[block][half];
          const Turns<Kind::kHow, 8> turns(turning, spots[half], at);
          Eight y = scaled(eight_of(x, half, block), by.product);
          if (Kind::kTurns) add_scaled(y, by.rotated_key, means.rotated_key);
          y = rotated<true>(y, turning, turns);
          add_scaled(y, by.key, means.key);
          store_eight_if(d_query.exists(8 * half), d_query.at(8 * half) + block * kBlockCols,
                         times_slope(Feature::kElu1, of.plain, y));
        }
      }
      add_to_keys(keys, phi, ds, Kind::kTurns && call.rotated_magnitude());
      d_query.go_on(kStep);
      tokens.advance(turning, kStep);
      wait_products();
    }
    team.sync();
    sums.write(head.value_mean, to, rows);
    team.sync();
    write_vectors(call, rows, keys, to + kDim * kDim);
  }

 private:
  __device__ __forceinline__ uint32_t slot(int half, int block) const {
    return slots + (half * kBlocks + block) * 16 * kThreads;
  }

  // x = S_c g of this warpgroup's columns, and g . mean value.
  __device__ __forceinline__ void meet_state(Accumulator<Memory::kCols>& x,
                                             Accumulator<8>& mean_parts, uint64_t g) const {
    using M = Matrix<kDim>;
    const uint64_t transposed = panel(block + Block::kTransposed);
    const uint64_t means = narrow_panel(block + Block::kMeans);
    constexpr int kCols = Memory::kCols;
    const int first = group * kCols;
    const int columns = first / kPanelCols * M::kPanelBytes + first % kPanelCols * 2;
    begin_products();
#pragma unroll
    for (int step = 0; step < M::kSteps; ++step) {
      const uint64_t left = moved(g, step / 4 * S::kPanelBytes + step % 4 * kStepRows * 2);
      const uint64_t right = moved(M::at(transposed, step, 0), columns);
      multiply<kCols, LeftRows::kKept>(x.c, left, moved(right, M::kPartBytes), step > 0);
      multiply<kCols, LeftRows::kKept>(x.c, left, right, true);
      multiply<8, LeftRows::kKept>(mean_parts.c, left, moved(means, step * kStepRows * 16),
                                   step > 0);
    }
    commit_products();
  }

  // Adds ds_i phi(q_i) to the sums for keys; where `late`, of features that have turned.
  static __device__ __forceinline__ void add_to_keys(Eight (&keys)[kBlocks],
                                                     const Features<8> (&phi)[kBlocks][2],
                                                     const float (&ds)[2], bool late) {
    auto add = [&](auto part) {
#pragma unroll
      for (int i = 0; i < 2 * kBlocks; ++i) {
        add_scaled(keys[i / 2], ds[i % 2], phi[i / 2][i % 2].*part);
      }
    };
    if (late) {
      add(&Features<8>::turned);
    } else {
      add(&Features<8>::plain);
    }
  }

  // Sums over rows of this warpgroup's columns, and what sums.write() told of all.
  __device__ __forceinline__ void write_vectors(const Call<BFloat16>& call, float* centres,
                                                Eight (&keys)[kBlocks], float* to) const {
    const int thread = team.thread;
    if (thread < kDim) {
      float centre = 0.0f;
#pragma unroll
      for (int i = 0; i < kGroups; ++i) centre += centres[i * kDim + thread];
      to[kDim + thread] = call.centred() ? 0.0f : centre;
    }
    team.sync();
    const int warp = thread % kGroupThreads / 32;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int other = 4; other < 32; other *= 2) {
          keys[block].x[i] += __shfl_xor_sync(~0u, keys[block].x[i], other);
        }
      }
      if (thread % 32 < 4) {
        store_eight(centres + warp * kDim + column + block * kBlockCols, keys[block]);
      }
    }
    team.sync();
    if (thread >= kDim) return;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kGroupThreads / 32; ++i) sum += centres[i * kDim + thread];
    to[thread] = sum;
  }
};

// The gradients of a block's queries, and what each team sums, in its own place. Returns how they
// turn.
template <int kDim, int kTeams, class Kind>
__device__ __forceinline__ Turning find_query_gradients(const Call<BFloat16>& call,
                                                        const Task& task, std::byte* memory) {
  using Block = QueryGradientBlock<kDim, kTeams>;
  using Memory = QueryGradientTeam<kDim>;
  static_assert(4 * kStateSize<kDim> <= Memory::kWeights);
  const uint32_t at = shared_address(memory);
  QueryGradientPass<kDim, kTeams, Kind> pass(call, task, at);
  Turning turning =
      near_turning<kDim, Kind>(call.q_turning, call.q_frequencies,
                               near_tokens(task, task.sequence.q_width), memory + Block::kTurns);
  wait_for_turns(turning);
  let_next_begin();
  const HeadScales scales = head_scales(call, task.sequence.k_count);
  const float* state = call.state + task.unit * call.layout.size();
  const QueryVectors<kDim> head(memory + Block::kVectors);
  fill_vectors_and_transposed<Block::kThreads>(call, state, scales, head,
                                               Matrix<kDim>{at + Block::kTransposed});
  for (int i = threadIdx.x; i < kDim; i += blockDim.x) {
    store_in_row(at + Block::kMeans, i, head.value_mean[i]);
  }
  show_to_tensor_cores();
  __syncthreads();
  std::byte* of_team = memory + pass.team.index * Memory::kBytes;
  pass.run(call, turning, task, scales.c, head, reinterpret_cast<float*>(of_team + Memory::kRows),
           reinterpret_cast<float*>(of_team));
  return turning;
}

// Grid (heads of queries, parts), clusters of parts: the sums of each cluster.
template <int kDim, int kTeams, class Kind>
__global__ void __launch_bounds__(QueryGradientBlock<kDim, kTeams>::kThreads,
                                  QueryGradientBlock<kDim, kTeams>::kAtOnce)
    query_gradients_kernel(const __grid_constant__ Call<BFloat16> call) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Block = QueryGradientBlock<kDim, kTeams>;
  extern __shared__ __align__(kAlign) std::byte panels_of_block[];
  std::byte* memory = panels_of_block;
  if (call.table || call.has_tail()) wait_for_previous();  // which may have written what is copied
  const Task task = query_task(call);
  if (task.first == task.end && call.table) return;
  find_query_gradients<kDim, kTeams, Kind>(call, task, memory);
  auto* sums = reinterpret_cast<float*>(memory);
  add_teams<kDim, Block::kThreads>(sums, kTeams, Block::Memory::kBytes / 4);
  write_cluster_sums<kDim, Block::kThreads>(sums, call.parts, task.slot);
#else
  __trap();  // never launched there
#endif
}

}  // namespace mala::gpu::hopper
