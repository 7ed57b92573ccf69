// The pass of the backward over queries on Hopper: writes their gradients and sums that of the
// state. Usual calls in bfloat16 without a tail, heads of 64 alone.
#pragma once

#include "mala/kernels/cuda/hopper/cluster.cuh"
#include "mala/kernels/cuda/hopper/matrix.cuh"
#include "mala/kernels/cuda/weights.cuh"

namespace mala::gpu::hopper {

// Of a team: two stages of gradients and weighted features in two parts, which leave their place to
// the sums; slots of queries, and weights of tokens in two parts.
template <int kDim>
struct QueryGradientMemory {
  using S = TileShare<kDim, kGroupThreads>;
  static constexpr int kFeatures = 2 * S::kTileBytes, kTileBytes = 4 * S::kTileBytes;
  static constexpr int kSlots = kTileBytes, kWeights = kSlots + LaneRows<kDim>::kSlotBytes;
  static constexpr int kBytes = kWeights + kAlign;      // 16 for each token
  static constexpr int kSums = kDim * kDim + 3 * kDim;  // floats
};

// The transpose of S_c, mean values in two parts, vectors, and what teams have.
template <int kDim>
struct QueryGradientBlock {
  static constexpr int kTeams = teams_on_hopper(kDim).query_gradients,
                       kThreads = kTeams * kGroupThreads;
  static constexpr int kTeamBytes = QueryGradientMemory<kDim>::kBytes;
  static constexpr int kTransposed = kTeams * kTeamBytes;
  static constexpr int kMeans = kTransposed + Matrix<kDim>::kBytes;
  static constexpr int kVectors = kMeans + 16 * kDim;
  static constexpr int kBytes = kVectors + QueryVectors<kDim>::kBytes;
};

// A number as the first two of a narrow panel's row.
__device__ __forceinline__ void store_in_row(uint32_t panel, int row, float x) {
  const TwoParts parts(x, 0.0f);
  store_shared(panel + 16 * row, {(parts.first & 0xFFFFu) | parts.rest << 16, 0, 0, 0});
}
// The sum of both parts of what a row became, for all lanes of it.
__device__ __forceinline__ float sum_of_row(const Accumulator<8>& from, int half) {
  return __shfl_sync(~0u, from.at(0, half, 0) + from.at(0, half, 1), threadIdx.x % 32 & ~3u);
}

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

template <int kDim>
__device__ __forceinline__ void fill_centred_transposed(const Matrix<kDim>& to, const float* state,
                                                        const QueryVectors<kDim>& head) {
  to.fill([&](int k, int unit, int pair) -> float2 {
    const int feature = first_column(unit) + 8 * pair;
    const float* from = state + feature * kDim + k;
    const float mean = head.value_mean[k];
    return {fmaf(-head.rotated_sum[feature], mean, from[0]),
            fmaf(-head.rotated_sum[feature + 1], mean, from[kDim])};
  });
}

// This lane's rows of a tile: its queries, and what becomes of them.
template <int kDim, class Kind>
struct QueryGradientRows {
  static constexpr int kBlocks = kDim / kBlockCols;
  const Call<BFloat16>& call;
  QueryVectors<kDim> head;
  uint32_t weighted[kBlocks];  // where its features of the first row go, in panels
  Eight keys[kBlocks];         // sums of ds_i phi(q_i)

  // Of the tile at hand:
  Spot spots[2];
  Magnitude magnitudes[2];
  Features<8> phi[kBlocks][2];

  static __device__ __forceinline__ int column(int block) {
    return block * kBlockCols + threadIdx.x % 4 * 8;
  }

  __device__ __forceinline__ void read(const uint4 (&raw)[2][kBlocks]) {
    magnitudes[0] = magnitudes[1] = {};
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const MeanKeys<8> means(head, column(block));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        phi[block][half] = meet_keys<Kind>(call, means, spots[half], column(block),
                                           unpack<BFloat16>(raw[half][block]), magnitudes[half]);
      }
    }
  }

  // Features times their weight, into panels.
  __device__ __forceinline__ void store_weighted(const RowWeights (&weights)[2], int rest_bytes) {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t at = weighted[block] + 8 * half * kPanelRowBytes;
        store_parts(at, at + rest_bytes, scaled(phi[block][half].turned, weights[half].product));
      }
    }
  }

  // From S_c g and g . mean value.
  __device__ __forceinline__ RowGradient gradient(const HeadAccumulator<kDim>& x,
                                                  const RowWeights& weights, float mean_part,
                                                  int half) const {
    float met = 0.0f;  // R phi(q) . S_c g
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      met = dot(phi[block][half].turned, eight_of(x, half, block), met);
    }
    return row_gradient<Kind>(call, weights, row_sum(met), mean_part);
  }

  // dq to memory, and the sum of plain features.
  __device__ __forceinline__ void write(const HeadAccumulator<kDim>& x, const RowGradient (&by)[2],
                                        const RowCursor<BFloat16>& d_query) {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const MeanKeys<8> means(head, column(block));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Turns<Kind::kHow, 8> turns(call.q_turning, spots[half], column(block));
        const Features<8>& of = phi[block][half];
        Eight y = scaled(eight_of(x, half, block), by[half].product);
        if (Kind::kTurns) add_scaled(y, by[half].rotated_key, means.rotated_key);
        y = rotated<true>(y, call.q_turning, turns);
        add_scaled(y, by[half].key, means.key);
        if (d_query.exists(8 * half)) {
          store_eight(d_query.at(8 * half) + block * kBlockCols,
                      times_slope(Feature::kElu1, of.plain, y));
        }
        if (Kind::kTurns && call.rotated_magnitude()) {
          add_scaled(keys[block], by[half].ds, of.turned);
        } else {
          add_scaled(keys[block], by[half].ds, of.plain);
        }
      }
    }
  }
};

// The sums of a team over its queries: dS, and the mean value's gradient.
template <int kDim>
struct QuerySums {
  using S = typename QueryGradientMemory<kDim>::S;
  uint64_t weighted, token_weights;
  HeadAccumulator<kDim> products = {};
  Accumulator<8> value_sums = {};

  __device__ __forceinline__ void add(uint64_t gradients) {
    begin_products();
#pragma unroll
    for (int step = 0; step < kRowTokens / kStepRows; ++step) {
      constexpr int kStepBytes = kStepRows * kPanelRowBytes;
      const uint64_t left = moved(weighted, step * kStepBytes);
      const uint64_t right = moved(gradients, step * kStepBytes);
      products.multiply_panel(0, left, right, true);
      products.multiply_panel(0, moved(left, S::kTileBytes), right, true);
      multiply<8>(value_sums.c, right, moved(token_weights, step * kStepRows * 16), true);
    }
    commit_products();
  }

  // And dS times the mean value, for the keys.
  __device__ __forceinline__ void write(const Call<BFloat16>& call, const float* value_mean,
                                        float* to) const {
    const int t = threadIdx.x % 4;
    const int first = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int feature = first + 8 * half;
      float centre = 0.0f;
#pragma unroll
      for (int j = 0; j < kDim / 8; ++j) {
        const float2 two = {products.at(j, half, 0), products.at(j, half, 1)};
        const int column = 8 * j + 2 * t;
        *reinterpret_cast<float2*>(to + feature * kDim + column) = two;
        centre = fmaf(two.x, value_mean[column], centre);
        centre = fmaf(two.y, value_mean[column + 1], centre);
      }
      centre = row_sum(centre);
      const float value_sum = sum_of_row(value_sums, half);
      if (t > 0) continue;
      to[call.layout.rotated_keys() + feature] = call.centred() ? 0.0f : centre;
      to[call.layout.values() + feature] = value_sum;
    }
  }
};

// x = S_c g of 64 rows, and g . mean value.
template <int kDim>
__device__ __forceinline__ void meet_state(HeadAccumulator<kDim>& x, Accumulator<8>& mean_parts,
                                           uint64_t gradients, uint64_t transposed,
                                           uint64_t means) {
  begin_products();
  multiply_rows(x, gradients, TileShare<kDim, kGroupThreads>::kPanelBytes, transposed);
#pragma unroll
  for (int step = 0; step < kDim / kStepRows; ++step) {
    multiply<8, LeftRows::kKept>(mean_parts.c, moved(gradients, step * kStepRows * 2),
                                 moved(means, step * kStepRows * 16), step > 0);
  }
  commit_products();
}

// The pass of one warpgroup over its tiles. Begins to copy as soon as it is made.
template <int kDim, class Kind>
struct QueryGradientPass {
  using Block = QueryGradientBlock<kDim>;
  using Memory = QueryGradientMemory<kDim>;
  using S = typename Memory::S;
  static constexpr int kBlocks = kDim / kBlockCols, kStep = Block::kTeams * kRowTokens;

  Team<kGroupThreads> team;
  int tiles;
  uint32_t memory;  // of the team
  TileCopier<kDim, kGroupThreads> gradients;
  LaneRows<kDim> queries;

  __device__ __forceinline__ QueryGradientPass(const Call<BFloat16>& call, const Task& task,
                                               uint32_t of_block)
      : tiles(team.tiles(task, Block::kTeams)),
        memory(of_block + team.index * Block::kTeamBytes),
        gradients(query_rows<Kind>(call.out_gradient, task, true), task, team),
        queries(query_rows<Kind>(call.inputs.q, task, true), task, team, memory + Memory::kSlots) {
    copy(0);
  }

  __device__ __forceinline__ void copy(int tile) {
    queries.copy(0, kStep);
    gradients.copy_to_panels(memory + tile % 2 * S::kTileBytes, kStep);
    commit_copies();
  }

  // All tiles, into `to`, which may lie where they do.
  __device__ __forceinline__ void run(const Call<BFloat16>& call, const Task& task, float c,
                                      const QueryVectors<kDim>& head, uint32_t of_block,
                                      float* to) {
    const uint64_t transposed = panel(of_block + Block::kTransposed);
    const uint64_t means = narrow_panel(of_block + Block::kMeans);
    const uint64_t stages = panel(memory);
    const int t = team.thread % 4, row = team.row(), first = team.index * kRowTokens + row;
    const uint32_t weighted = memory + Memory::kFeatures;
    QueryGradientRows<kDim, Kind> rows{
        call, head, {weighted + in_panel(row, t), weighted + in_panel(row, t + 4)}, {}};
    QuerySums<kDim> sums{panel(weighted), narrow_panel(memory + Memory::kWeights)};
    RowCursor<BFloat16> d_query(query_rows<Kind>(call.gradients.q, task, true), task, first, 8 * t);
    LaneTokens<Kind, 1> tokens(call.q_turning, task, task.sequence.q_width, first, kStep);
    for (int tile = 0; tile < tiles; ++tile) {
      wait_copies<0>();
      uint4 raw[2][kBlocks];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
          raw[half][block] = queries.raw(0, half, block);
        }
      }
      show_to_tensor_cores();
      team.sync();  // everyone's gradients are here, and everyone is done with the tile before
      if (tile + 1 < tiles) copy(tile + 1);
      const uint64_t g = moved(stages, tile % 2 * S::kTileBytes);
      HeadAccumulator<kDim> x;
      Accumulator<8> mean_parts;
      meet_state(x, mean_parts, g, transposed, means);

      rows.spots[0] = tokens.spot(0);
      rows.spots[1] = tokens.spot(1);
      rows.read(raw);
      RowWeights weights[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        weights[half] = weights_of<Kind>(call, c, rows.magnitudes[half]);
        if (!d_query.exists(8 * half)) weights[half] = {};
        if (t == 0) store_in_row(memory + Memory::kWeights, row + 8 * half, weights[half].mean);
      }
      rows.store_weighted(weights, S::kTileBytes);
      wait_products();
      show_to_tensor_cores();
      team.sync();  // everyone's weighted features are here
      sums.add(g);
      const RowGradient by[2] = {rows.gradient(x, weights[0], sum_of_row(mean_parts, 0), 0),
                                 rows.gradient(x, weights[1], sum_of_row(mean_parts, 1), 1)};
      rows.write(x, by, d_query);
      d_query.go_on(kStep);
      tokens.advance(call.q_turning, kStep);
      wait_products();
    }
    team.sync();
    sums.write(call, head.value_mean, to);
    write_column_sums(rows.keys, to + call.layout.keys());
  }

 private:
  // Sums over the rows of a tile, in the memory of its queries: every lane of a warp has columns of
  // its own there once those of equal t are added.
  __device__ __forceinline__ void write_column_sums(const Eight (&sums)[kBlocks], float* to) const {
    constexpr int kWarps = kGroupThreads / 32;
    const int lane = team.thread % 32, warp = team.thread / 32;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      Eight sum = sums[block];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int other = 4; other < 32; other *= 2) {
          sum.x[i] += __shfl_xor_sync(~0u, sum.x[i], other);
        }
      }
      if (lane >= 4) continue;
      const uint32_t at =
          memory + Memory::kSlots + 4 * (warp * kDim + block * kBlockCols + 8 * lane);
      store_shared(at,
                   {bits_of(sum.x[0]), bits_of(sum.x[1]), bits_of(sum.x[2]), bits_of(sum.x[3])});
      store_shared(at + 16,
                   {bits_of(sum.x[4]), bits_of(sum.x[5]), bits_of(sum.x[6]), bits_of(sum.x[7])});
    }
    team.sync();
    if (team.thread >= kDim / 4) return;
    Four sum = {};
#pragma unroll
    for (int other = 0; other < kWarps; ++other) {
      add_scaled(
          sum, 1.0f,
          load_shared_four<float>(memory + Memory::kSlots + 4 * (other * kDim + 4 * team.thread)));
    }
    store_four(to + 4 * team.thread, sum);
  }
};

// Grid (heads of queries, parts), clusters of parts: the sums of each cluster.
template <int kDim, class Kind>
__global__ void __launch_bounds__(QueryGradientBlock<kDim>::kThreads, 1)
    query_gradients_kernel(const __grid_constant__ Call<BFloat16> call) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Block = QueryGradientBlock<kDim>;
  using Memory = QueryGradientMemory<kDim>;
  static_assert(Memory::S::kPanels == 1 && 16 * kRowTokens <= kAlign);
  static_assert(4 * Memory::kSums <= Memory::kTileBytes);
  extern __shared__ __align__(128) std::byte shared[];
  std::byte* memory = aligned(shared);
  const uint32_t at = shared_address(memory);
  if (call.table) wait_for_previous();
  const Task task = query_task(call);
  if (task.first == task.end && call.table) return;
  QueryGradientPass<kDim, Kind> pass(call, task, at);
  wait_for_previous();
  let_next_begin();
  const HeadScales scales = head_scales(call, task.sequence.k_count);
  const float* state = call.state + task.unit * call.layout.size();
  const QueryVectors<kDim> head(memory + Block::kVectors);
  fill_vectors(call, state, scales, head);
  fill_centred_transposed(Matrix<kDim>{at + Block::kTransposed}, state, head);
  for (int i = threadIdx.x; i < kDim; i += blockDim.x) {
    store_in_row(at + Block::kMeans, i, head.value_mean[i]);
  }
  show_to_tensor_cores();
  __syncthreads();
  auto* sums = reinterpret_cast<float*>(memory);
  pass.run(call, task, scales.c, head, at, sums + pass.team.index * (Block::kTeamBytes / 4));
  add_teams(sums, Memory::kSums, Block::kTeams, Block::kTeamBytes / 4);
  const Cluster cluster;
  float* to = call.parts + task.slot / cluster.size * Memory::kSums;
  add_blocks(cluster, sums, Memory::kSums,
             [&](int i, const Four& four) { store_four(to + i, four); });
  if (cluster.size > 1) cluster.sync();  // nobody leaves while others read
#else
  __trap();  // never launched there
#endif
}

}  // namespace mala::gpu::hopper
