// The pass of the backward over queries on Hopper: writes their gradients and sums that of the
// state. Usual calls in bfloat16 without a tail, heads of 64 alone.
#pragma once

#include "mala/kernels/cuda/hopper/matrix.cuh"
#include "mala/kernels/cuda/query_gradients.cuh"

namespace mala::gpu::hopper {

// The transpose of S_c, stages of gradients, weighted features in two parts, mean values and
// weights of tokens in two parts each, and vectors.
template <int kDim>
struct QueryGradientMemory {
  using S = TileShare<kDim, kRowThreads>;
  static constexpr int kGradients = Matrix<kDim>::kBytes;
  static constexpr int kFeatures = kGradients + 2 * S::kTileBytes;
  static constexpr int kMeans = kFeatures + 2 * S::kTileBytes;
  static constexpr int kWeights = kMeans + 16 * kDim;
  static constexpr int kVectors = kWeights + 16 * kRowTokens;
  static constexpr int kBytes = kVectors + QueryVectors<kDim>::kBytes;

  std::byte* memory;

  __device__ __forceinline__ uint32_t at(int offset) const {
    return shared_address(memory) + offset;
  }
  __device__ __forceinline__ Matrix<kDim> transposed() const { return {at(0)}; }
  __device__ __forceinline__ uint32_t gradients(int tile) const {
    return at(kGradients + tile % 2 * S::kTileBytes);
  }
  __device__ __forceinline__ QueryVectors<kDim> vectors() const {
    return QueryVectors<kDim>(memory + kVectors);
  }
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
  to.template fill<true>([&](int k, int unit, int pair) -> float2 {
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
  Rows<BFloat16> d_query;
  uint32_t weighted[kBlocks];  // where its features of the first row go, in panels
  Eight keys[kBlocks];         // sums of ds_i phi(q_i)

  // Of the tile at hand:
  Spot spots[2];
  Magnitude magnitudes[2];
  Features<8> phi[kBlocks][2];

  static __device__ __forceinline__ int column(int block) {
    return block * kBlockCols + threadIdx.x % 4 * 8;
  }

  __device__ __forceinline__ void read(const LaneRows<kDim>& queries) {
    magnitudes[0] = magnitudes[1] = {};
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const MeanKeys<8> means(head, column(block));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        phi[block][half] = meet_keys<Kind>(call, means, spots[half], column(block),
                                           queries.eight(half, block), magnitudes[half]);
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

  // dq to memory, features times their weight to panels, and the sum of plain ones.
  __device__ __forceinline__ void write(const HeadAccumulator<kDim>& x, const RowGradient (&by)[2],
                                        const LaneTokens<Kind, 1>& tokens, int rest_bytes) {
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
        if (tokens.exists(half)) {
          store_eight(d_query.at(tokens.token(half), column(block)),
                      times_slope(Feature::kElu1, of.plain, y));
        }
        if (Kind::kTurns && call.rotated_magnitude()) {
          add_scaled(keys[block], by[half].ds, of.turned);
        } else {
          add_scaled(keys[block], by[half].ds, of.plain);
        }
        const uint32_t at = weighted[block] + 8 * half * kPanelRowBytes;
        store_parts(at, at + rest_bytes, scaled(of.turned, by[half].product));
      }
    }
  }
};

// The sums of a part over its queries: dS, and the mean value's gradient.
template <int kDim>
struct QuerySums {
  using Memory = QueryGradientMemory<kDim>;
  using S = typename Memory::S;
  uint64_t weighted, token_weights;
  HeadAccumulator<kDim> products;
  Accumulator<8> value_sums;

  __device__ __forceinline__ explicit QuerySums(const Memory& memory)
      : weighted(panel(memory.at(Memory::kFeatures))),
        token_weights(narrow_panel(memory.at(Memory::kWeights))) {}

  __device__ __forceinline__ void add(uint64_t gradients, bool is_first) {
    begin_products();
#pragma unroll
    for (int step = 0; step < kRowTokens / kStepRows; ++step) {
      constexpr int kStepBytes = kStepRows * kPanelRowBytes;
      const uint64_t left = moved(weighted, step * kStepBytes);
      const uint64_t right = moved(gradients, step * kStepBytes);
      const bool adds = !is_first || step > 0;
      products.multiply_panel(0, left, right, adds);
      products.multiply_panel(0, moved(left, S::kTileBytes), right, true);
      multiply(value_sums, right, moved(token_weights, step * kStepRows * 16), adds);
    }
    commit_products();
  }

  // And dS times the mean value, for the keys.
  __device__ __forceinline__ void write(const Call<BFloat16>& call, const float* value_mean,
                                        float* to) const {
    const int t = threadIdx.x % 4, first = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
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
  multiply_rows(x, gradients, TileShare<kDim, kRowThreads>::kPanelBytes, transposed);
#pragma unroll
  for (int step = 0; step < kDim / kStepRows; ++step) {
    multiply<LeftRows::kKept>(mean_parts, moved(gradients, step * kStepRows * 2),
                              moved(means, step * kStepRows * 16), step > 0);
  }
  commit_products();
}

// Grid (heads of queries, parts).
template <int kDim, class Kind>
__global__ void __launch_bounds__(kRowThreads, 2)
    query_gradients_kernel(const __grid_constant__ Call<BFloat16> call) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Memory = QueryGradientMemory<kDim>;
  using S = typename Memory::S;
  static_assert(S::kPanels == 1);
  static_assert(gpu::SumShape<BFloat16, kDim>::kThreads == kRowThreads);  // of write_column_sums
  extern __shared__ __align__(128) std::byte shared[];
  const Memory memory{aligned(shared)};
  if (call.table) wait_for_previous();
  const Task task = query_task(call);
  if (task.first == task.end) return;
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const int tiles = static_cast<int>(divide_up(task.end - task.first, kRowTokens));
  LaneRows<kDim> queries(query_rows<Kind>(call.inputs.q, task, true), task, row);
  queries.ask();
  TileCopier<kDim, kRowThreads> gradients(query_rows<Kind>(call.out_gradient, task, true), task);
  gradients.copy(memory.gradients(0));
  wait_for_previous();
  let_next_begin();

  const HeadScales scales = head_scales(call, task.sequence.k_count);
  const float* state = call.state + task.unit * call.layout.size();
  const QueryVectors<kDim> head = memory.vectors();
  fill_vectors(call, state, scales, head);
  fill_centred_transposed(memory.transposed(), state, head);
  for (int i = threadIdx.x; i < kDim; i += kRowThreads) {
    store_in_row(memory.at(Memory::kMeans), i, head.value_mean[i]);
  }

  const uint64_t transposed = memory.transposed().panels();
  const uint64_t means = narrow_panel(memory.at(Memory::kMeans));
  const uint64_t gradient_panels = panel(memory.gradients(0));
  const uint32_t weighted = memory.at(Memory::kFeatures);
  QueryGradientRows<kDim, Kind> rows{call,
                                     head,
                                     query_rows<Kind>(call.gradients.q, task, true),
                                     {weighted + in_panel(row, t), weighted + in_panel(row, t + 4)},
                                     {}};
  QuerySums<kDim> sums(memory);
  LaneTokens<Kind, 1> tokens(call.q_turning, task, task.sequence.q_width, row, kRowTokens);
  for (int tile = 0; tile < tiles; ++tile) {
    wait_copies<0>();
    wait_products();
    show_to_tensor_cores();
    __syncthreads();  // everyone's gradients are here, and everyone is done with the tile before
    if (tile + 1 < tiles) gradients.copy(memory.gradients(tile + 1));
    const uint64_t g = moved(gradient_panels, tile % 2 * S::kTileBytes);
    HeadAccumulator<kDim> x;
    Accumulator<8> mean_parts;
    meet_state(x, mean_parts, g, transposed, means);

    rows.spots[0] = tokens.spot(0);
    rows.spots[1] = tokens.spot(1);
    rows.read(queries);
    if (tile + 1 < tiles) queries.ask();
    RowWeights weights[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      weights[half] = weights_of<Kind>(call, scales.c, rows.magnitudes[half]);
      if (!tokens.exists(half)) weights[half] = {};
      if (t == 0) store_in_row(memory.at(Memory::kWeights), row + 8 * half, weights[half].mean);
    }
    wait_products();
    const RowGradient by[2] = {rows.gradient(x, weights[0], sum_of_row(mean_parts, 0), 0),
                               rows.gradient(x, weights[1], sum_of_row(mean_parts, 1), 1)};
    rows.write(x, by, tokens, S::kTileBytes);
    tokens.advance(call.q_turning, kRowTokens);
    show_to_tensor_cores();
    __syncthreads();  // everyone's weighted features are here
    sums.add(g, tile == 0);
  }
  wait_products();

  float* to = call.parts + task.slot * call.layout.size();
  sums.write(call, head.value_mean, to);
  write_column_sums<BFloat16, kDim>(rows.keys, reinterpret_cast<float*>(memory.memory),
                                    call.layout.dim, to + call.layout.keys());
#else
  __trap();  // never launched there
#endif
}

}  // namespace mala::gpu::hopper
