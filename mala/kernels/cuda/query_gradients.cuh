// The pass of the backward over queries: writes their gradients and sums that of the state.
#pragma once

#include "mala/kernels/cuda/feature.cuh"
#include "mala/kernels/cuda/prepare.cuh"
#include "mala/kernels/cuda/query_tail.cuh"
#include "mala/kernels/cuda/sums.cuh"
#include "mala/kernels/cuda/weights.cuh"

namespace mala::gpu {

// What the sums take of each query besides its features: the weight of the mean value in it, and
// g . mean value.
struct TokenWeights {
  float mean, mean_part;
};

// The transpose of S_c, vectors, weights of the tokens, weighted features as floats, stages of
// queries and gradients of out.
template <typename T, int kDim>
struct QueryGradientMemory {
  static constexpr int kTokens = kGradientTokens<T, kDim>;
  static constexpr int kRightBytes = kSharedRight<T, kDim> ? Right<T, kDim>::kBytes : 0;
  static constexpr int kVectors = kRightBytes;
  static constexpr int kWeights = kVectors + QueryVectors<kDim>::kBytes;
  static constexpr int kFeatures = kWeights + kTokens * sizeof(TokenWeights);
  static constexpr int kFixedBytes = kFeatures + kTokens * kDim * 4;
  static constexpr int kTileBytes = kTokens * kDim * sizeof(T);
  using Staged = Stages<kFixedBytes, 2 * kTileBytes>;
  static_assert(SumWriter<T, kDim, true>::kBytes <= Staged::kOne);

  std::byte* memory;

  __device__ QueryVectors<kDim> vectors() const { return QueryVectors<kDim>(memory + kVectors); }
  __device__ TokenWeights* weights() const {
    return reinterpret_cast<TokenWeights*>(memory + kWeights);
  }
  __device__ Tile<float, kDim> features() const {
    return {reinterpret_cast<float*>(memory + kFeatures)};
  }
  __device__ Tile<T, kDim> queries() const { return {reinterpret_cast<T*>(memory + kFixedBytes)}; }
  __device__ Tile<T, kDim> gradients() const { return {queries().data + kTokens * kDim}; }
};

// This lane's rows g and g + 8 of its warp's 16 queries of a tile.
template <typename T, int kDim, class Kind>
struct QueryGradients {
  static constexpr int kBlocks = kDim / kBlockCols;

  const Call<T>& call;
  QueryVectors<kDim> head;
  Right<T, kDim> transposed;
  float c;
  bool writes;  // one of the blocks that share the columns of a head's sums
  QueryTail<T, kDim, Kind> tail;
  Rows<T> d_query;
  LaneTile<float, kDim, 1> weighted;  // features, as the sums take them in
  TokenWeights* token_weights;

  // Of the tile at hand:
  LaneTile<T, kDim, 1> queries, gradients;

  // Writes dq and weighted features; `keys` sums ds_i phi(q_i).
  __device__ __forceinline__ void run(const LaneTokens<Kind, 1>& tokens,
                                      Eight (&keys)[kBlocks]) const {
    const Spot spots[2] = {tokens.spot(0), tokens.spot(1)};
    Magnitude magnitudes[2];
    Eight plain[kKeeps<T, kDim> ? kBlocks : 1][2];
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const MeanKeys<8> means(head, column(block));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Features<8> phi =
            meet_keys<Kind>(call, call.q_turning, means, spots[half], column(block),
                            queries.eight(half, block), magnitudes[half]);
        if constexpr (kKeeps<T, kDim>) plain[block][half] = phi.plain;
        weighted.set_eight(half, block, phi.turned);
      }
    }
    const RowWeights weights[2] = {weights_of(tokens, magnitudes, 0),
                                   weights_of(tokens, magnitudes, 1)};
    if constexpr (Kind::kTail) tail.pass(weights, tokens, weighted, gradients);

    Product<kDim, 1> x;           // S_c g
    float mean_part[2] = {0, 0};  // g . mean value
#pragma unroll 1
    for (int block = 0; block < kBlocks; ++block) {
      const Eight mean = eight_of(head.value_mean, column(block));
      const Eight g[2] = {gradients.eight(0, block), gradients.eight(1, block)};
      mean_part[0] = dot(g[0], mean, mean_part[0]);
      mean_part[1] = dot(g[1], mean, mean_part[1]);
      const LeftBlock<T> left[1] = {{g[0], g[1], true}};
      x.add(left, transposed, block);
    }
    const RowGradient rows[2] = {row_gradient(x, weights[0], mean_part[0], 0),
                                 row_gradient(x, weights[1], mean_part[1], 1)};
    if (threadIdx.x % 4 == 0) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        token_weights[queries.row() + 8 * half] = {weights[half].mean, rows[half].mean_part};
      }
    }
    const Row<T> to[2] = {row_of(d_query, tokens.token(0), tokens.exists(0) && writes),
                          row_of(d_query, tokens.token(1), tokens.exists(1) && writes)};
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const Turns<Kind::kHow, 8> turns[2] = {{call.q_turning, spots[0], column(block)},
                                             {call.q_turning, spots[1], column(block)}};
      const MeanKeys<8> means(head, column(block));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        Eight phi;
        if constexpr (kKeeps<T, kDim>) {
          phi = plain[block][half];
        } else {
          phi = features<T>(Kind::feature(call), queries.eight(half, block));
        }
        finish(to[half], turns[half], block, half, means, phi, x.eight(half, block), rows[half],
               keys[block]);
      }
    }
  }

 private:
  // What a row's gradient has of S_c g, of the rotated and of the plain key.
  struct RowGradient {
    float product, rotated_key, key;
    float ds, mean_part;
  };

  static __device__ __forceinline__ int column(int block) {
    return block * kBlockCols + threadIdx.x % 4 * 8;
  }

  __device__ __forceinline__ RowWeights weights_of(const LaneTokens<Kind, 1>& tokens,
                                                   const Magnitude (&magnitudes)[2],
                                                   int half) const {
    const RowWeights weights = gpu::weights_of<Kind>(call, c, magnitudes[half]);
    return tokens.exists(half) ? weights : RowWeights{};
  }

  __device__ __forceinline__ RowGradient row_gradient(const Product<kDim, 1>& x,
                                                      const RowWeights& weights, float mean_part,
                                                      int half) const {
    float met = 0.0f;  // R phi(q) . S_c g
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      met = dot(weighted.eight(half, block), x.eight(half, block), met);
    }
    mean_part = row_sum(mean_part);
    const float ds = fmaf(weights.product_slope, row_sum(met), weights.mean_slope * mean_part);
    const float rotated = call.centred() ? 0.0f : weights.gain * mean_part;
    const bool late = call.rotated_magnitude();
    // Without turns there is one key for both.
    return {.product = weights.product,
            .rotated_key = late ? rotated + ds : rotated,
            .key = Kind::kTurns ? (late ? 0.0f : ds) : rotated + ds,
            .ds = ds,
            .mean_part = call.centred() ? 0.0f : mean_part};
  }

  __device__ __forceinline__ void finish(const Row<T>& to, const Turns<Kind::kHow, 8>& turns,
                                         int block, int half, const MeanKeys<8>& means,
                                         const Eight& phi, const Eight& x, const RowGradient& by,
                                         Eight& keys) const {
    const Eight turned = weighted.eight(half, block);
    Eight y = scaled(x, by.product);
    if (Kind::kTurns) add_scaled(y, by.rotated_key, means.rotated_key);
    y = rotated<true>(y, call.q_turning, turns);
    add_scaled(y, by.key, means.key);
    write_eight(to, column(block), times_slope(Kind::feature(call), phi, y));
    if (Kind::kTurns && call.rotated_magnitude()) {
      add_scaled(keys, by.ds, turned);
    } else {
      add_scaled(keys, by.ds, phi);
    }
    weighted.set_eight(half, block, scaled(turned, by.product));
  }
};

// A warp's share of the sums: its features of the tokens of all warps, by the values from column
// `chunk` on.
template <typename T, int kDim>
struct QuerySums {
  using S = SumShape<T, kDim>;
  using Place = SumPlace<T, kDim>;
  using Sums = gpu::Sums<T, kDim, true>;
  static constexpr int kSteps = kGradientTokens<T, kDim> / Place::kStep;

  Place place;
  FourAddresses<float, kDim> features;
  FourAddresses<T, kDim> gradients;
  const TokenWeights* weights;  // of the lane's tokens
  Sums sums;
  Four means = {};  // sums of this lane's features by g . mean value

  __device__ __forceinline__ QuerySums(const QueryGradientMemory<T, kDim>& memory, int chunk)
      : features(memory.features(), place.first_token(), place.feature()),
        gradients(memory.gradients(), place.first_token(), chunk + 4 * place.g),
        weights(memory.weights() + place.first_token()) {}

  // A tile whose gradients stand `stage` bytes after the first.
  __device__ __forceinline__ void add_tile(int stage) {
#pragma unroll(kFine <T> ? 1 : kSteps)
    for (int step = 0; step < kSteps; ++step) {
      const int tokens = step * Place::kStep;
      const Four a = features.four(0, 0, tokens, 0), b = features.four(1, 0, tokens, 0);
      const TokenWeights of_a = weights[tokens], of_b = weights[tokens + 4];
      add_scaled(means, of_a.mean_part, a);
      add_scaled(means, of_b.mean_part, b);
      sums.add(place, FourParts<T>(a), FourParts<T>(b), {of_a.mean, of_b.mean},
               [&](int half, int block) { return gradients.four(half, block, tokens, stage); });
    }
  }
};

// Adds what the lanes and warps of a block hold of sums over rows, each eight columns of every
// block of 32, and writes them.
template <typename T, int kDim>
__device__ __forceinline__ void write_column_sums(const Eight (&sums)[kDim / kBlockCols],
                                                  float* shared, int64_t dim, float* to) {
  using S = SumShape<T, kDim>;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  __syncthreads();
#pragma unroll
  for (int block = 0; block < kDim / kBlockCols; ++block) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float x = sums[block].x[i];
#pragma unroll
      for (int step = 4; step < 32; step *= 2) x += __shfl_xor_sync(~0u, x, step);
      if (lane < 4) shared[warp * kDim + block * kBlockCols + lane * 8 + i] = x;
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < dim; i += S::kThreads) {
    float x = 0.0f;
    for (int w = 0; w < S::kWarps; ++w) x += shared[w * kDim + i];
    to[i] = x;
  }
}

template <typename T, int kDim, class Kind>
__device__ __forceinline__ void query_gradients_of_block(const Call<T>& call) {
  using S = SumShape<T, kDim>;
  using Memory = QueryGradientMemory<T, kDim>;
  constexpr int kTokens = Memory::kTokens;
  extern __shared__ __align__(128) std::byte shared[];
  const Memory memory{shared};
  wait_for_previous();
  let_next_begin();
  const Task task = query_task(call);
  if (task.first == task.end) return;
  const int chunk = static_cast<int>(blockIdx.z) * S::kChunk;
  const Rows<const T> q = query_rows<Kind>(call.inputs.q, task, call.vectors.q);
  const Rows<const T> g = query_rows<Kind>(call.out_gradient, task, call.vectors.out_gradient);
  const int tiles = static_cast<int>(divide_up(task.end - task.first, kTokens));
  const LaneTile<T, kDim, 1> lane_queries(memory.queries()), lane_gradients(memory.gradients());
  Stager<T, kTokens> queries(q, task.first, task.end, lane_queries.row());
  Stager<T, kTokens> gradients(g, task.first, task.end, lane_queries.row());
  auto stage_tile = [&](int tile) {
    if (has_rows<S, kTokens>(threadIdx.x)) {
      queries.stage(lane_queries.moved(Memory::Staged::offset(tile)));
      gradients.stage(lane_gradients.moved(Memory::Staged::offset(tile)));
    }
    commit_copies();
  };
  stage_tile(0);

  const HeadScales scales = head_scales(call, task.sequence.k_count);
  const float* state = call.state + task.unit * call.layout.size();
  const Right<T, kDim> transposed(
      kSharedRight<T, kDim> ? shared : global_right<T, kDim>(call, task.unit, 1));
  fill_vectors(call, state, scales, memory.vectors());
  if constexpr (kSharedRight<T, kDim>) {
    fill_centred_transposed(state, call.layout, memory.vectors(), transposed);
  }
  QueryGradients<T, kDim, Kind> pass{
      call,
      memory.vectors(),
      transposed,
      scales.c,
      chunk == 0,
      query_tail<T, kDim, Kind>(call, task, memory.vectors(), chunk == 0),
      query_rows<Kind>(call.gradients.q, task, call.vectors.d_query),
      LaneTile<float, kDim, 1>(memory.features()),
      memory.weights(),
      lane_queries,
      lane_gradients};
  LaneTokens<Kind, 1> tokens(call.q_turning, task, task.sequence.q_width, lane_queries.row(),
                             kTokens);
  QuerySums<T, kDim> sums(memory, chunk);
  Eight keys[kDim / kBlockCols] = {};
  for (int tile = 0; tile < tiles; ++tile) {
    wait_copies<0>();
    __syncthreads();
    if (Memory::Staged::are_two() && tile + 1 < tiles) stage_tile(tile + 1);
    pass.queries = lane_queries.moved(Memory::Staged::offset(tile));
    pass.gradients = lane_gradients.moved(Memory::Staged::offset(tile));
    if (has_rows<S, kTokens>(threadIdx.x)) pass.run(tokens, keys);
    tokens.advance(call.q_turning, kTokens);
    __syncthreads();
    sums.add_tile(Memory::Staged::offset(tile));
    if (!Memory::Staged::are_two() && tile + 1 < tiles) {
      __syncthreads();
      stage_tile(tile + 1);
    }
  }

  float* to = call.parts + task.slot * call.layout.size();
  if (chunk == 0) {
    write_column_sums<T, kDim>(keys, reinterpret_cast<float*>(shared + Memory::kFeatures),
                               call.layout.dim, to + call.layout.keys());
    write_feature_sums(sums.means, sums.place, reinterpret_cast<float*>(shared + Memory::kFeatures),
                       call.layout.dim, to + call.layout.rotated_keys());
  }
  __syncthreads();  // nothing else is needed any more
  SumWriter<T, kDim, true>::write(sums.sums, sums.place, shared, {call.layout, chunk, to});
}

// Grid (heads of queries, parts, chunks of values).
template <typename T, int kDim, class Kind>
__global__ void __launch_bounds__(SumShape<T, kDim>::kThreads,
                                  kLeastBlocks<T, kDim>.query_gradients)
    query_gradients_kernel(const __grid_constant__ Call<T> call) {
  if constexpr (kLeftToHopper<Kind>) {
    __trap();  // never launched there
  } else {
    query_gradients_of_block<T, kDim, Kind>(call);
  }
}

}  // namespace mala::gpu
