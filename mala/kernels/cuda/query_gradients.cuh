// The pass of the backward over queries: writes their gradients and sums that of the state.
#pragma once

#include "mala/kernels/cuda/feature.cuh"
#include "mala/kernels/cuda/prepare.cuh"
#include "mala/kernels/cuda/sums.cuh"
#include "mala/kernels/cuda/weights.cuh"

namespace mala::gpu {

// The transpose of S_c, vectors, the weight of each token, features, stages of queries and
// gradients of out.
template <typename T, int kDim>
struct QueryGradientMemory {
  using S = Shape<kDim>;
  using Features = FeatureTile<T, kDim, S::kTokens>;
  static constexpr int kRightBytes = kSharedRight<T, kDim> ? Right<T, kDim>::kBytes : 0;
  static constexpr int kVectors = kRightBytes;
  static constexpr int kWeights = kVectors + QueryVectors<kDim>::kBytes;
  static constexpr int kFeatures = kWeights + S::kTokens * 4;
  static constexpr int kFixedBytes = kFeatures + Features::kBytes;
  static constexpr int kTileBytes = S::kTokens * kDim * sizeof(T);
  static constexpr int kStages = stages(kFixedBytes, 2 * kTileBytes);
  static constexpr int kBytes = kFixedBytes + kStages * 2 * kTileBytes;

  std::byte* memory;

  __device__ QueryVectors<kDim> vectors() const { return QueryVectors<kDim>(memory + kVectors); }
  __device__ float* weights() const { return reinterpret_cast<float*>(memory + kWeights); }
  __device__ Features features() const { return Features(memory + kFeatures); }
  __device__ Tile<T, kDim> queries(int tile) const {
    return {reinterpret_cast<T*>(memory + kFixedBytes + stage(tile))};
  }
  __device__ Tile<T, kDim> gradients(int tile) const {
    return {queries(tile).data + S::kTokens * kDim};
  }
  static __device__ int stage(int tile) { return tile % kStages * 2 * kTileBytes; }
};

// One warp's queries of a tile, rows g and g + 8 of each lane. kTail: there may be a local
// term or a gate.
template <typename T, int kDim, bool kTurns, bool kTail>
struct QueryGradients {
  using Features = FeatureTile<T, kDim, Shape<kDim>::kTokens>;
  static constexpr int kBlocks = kDim / kBlockCols, kUnrolled = kUnrolledBlocks<T, kDim>;
  static constexpr bool kKeeps = kUnrolls<T, kDim>;

  const Call<T>& call;
  int64_t unit;
  QueryVectors<kDim> head;
  Right<T, kDim> transposed;
  float c;
  bool writes;  // one of the blocks that share the columns of a head's sums
  Rows<const T> local, gate;
  Rows<T> d_query, d_local, d_gate;

  // Of the tile at hand:
  LaneTile<T, kDim> queries, gradients;
  LaneTokens tokens;

  static __device__ __forceinline__ int column(int block) {
    return block * kBlockCols + threadIdx.x % 4 * 8;
  }
  __device__ __forceinline__ int64_t token(int half) const { return tokens.token(half); }
  __device__ __forceinline__ bool exists(int half) const { return tokens.exists(half); }
  __device__ __forceinline__ Eight phi(int half, int block) const {
    return features<T>(call.feature, queries.eight(half, block));
  }

  // The turned features of a row, into their tile, and what their magnitude makes of the row.
  __device__ __forceinline__ RowWeights weigh(int half, const Spot& spot,
                                              const Features& to) const {
    Magnitude magnitude;
#pragma unroll(kUnrolled)
    for (int block = 0; block < kBlocks; ++block) {
      to.set_eight(half, block,
                   meet_keys<kTurns>(call, head, spot, column(block), queries.eight(half, block),
                                     magnitude));
    }
    const RowWeights weights = weights_of<kTurns>(call, c, magnitude);
    return exists(half) ? weights : RowWeights{};
  }

  // Turns the gradient of out into that of the attention before the tail, in its tile, and writes
  // those of local and gate.
  __device__ __forceinline__ void pass_tail(const RowWeights (&weights)[2],
                                            const Features& turned) const {
    const Right<T, kDim> right(global_right<T, kDim>(call, unit, 0));
#pragma unroll 1
    for (int block = 0; block < kBlocks; ++block) {
      Product product;
#pragma unroll 1
      for (int k = 0; k < kBlocks && gate.data; ++k) {
        const Left<T> left(turned.eight(0, k), turned.eight(1, k));
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          right.multiply(product.c[j], left, k, 4 * block + j, threadIdx.x % 32);
        }
      }
      tail_of_row(0, block, product.upper(), weights[0]);
      tail_of_row(1, block, product.lower(), weights[1]);
    }
  }

  __device__ __forceinline__ void tail_of_row(int half, int block, const Eight& product,
                                              const RowWeights& weights) const {
    if (!exists(half) || column(block) >= call.layout.value_dim) return;
    Eight g = gradients.eight(half, block);
    if (gate.data) {
      Eight y = scaled(product, weights.product);
      add_scaled(y, weights.mean, eight_of(head.value_mean, column(block)));
      if (local.data) {
        add_scaled(y, 1.0f, read_eight(row_of(local, token(half), true), column(block)));
      }
      const Eight by = read_eight(row_of(gate, token(half), true), column(block));
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        y.x[i] *= g.x[i];
        g.x[i] *= by.x[i];
      }
      write_eight(row_of(d_gate, token(half), writes), column(block), y);
      gradients.set_eight(half, block, g);
    }
    write_eight(row_of(d_local, token(half), writes), column(block), g);
  }

  // c += a block of S_c g, over a block of the gradient's columns.
  __device__ __forceinline__ void add_product(Product& product, int block, int k,
                                              const Left<T>& left) const {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      transposed.multiply(product.c[j], left, k, 4 * block + j, threadIdx.x % 32);
    }
  }
  __device__ __forceinline__ Product product_of(int block) const {
    Product product;
#pragma unroll 1
    for (int k = 0; k < kBlocks; ++k) {
      add_product(product, block, k, left_of(gradients, k));
    }
    return product;
  }

  // Writes dq, and the weighted features that the sums take in; `keys` sums ds_i phi(q_i).
  __device__ __forceinline__ void run(const Features& turned, float* value_weights,
                                      Eight (&keys)[kBlocks]) const {
    Spot spots[2];
#pragma unroll
    for (int half = 0; half < 2 && kTurns; ++half) {
      spots[half] = tokens.walks[half].spot(call.q_turning, exists(half));
    }
    const RowWeights weights[2] = {weigh(0, spots[0], turned), weigh(1, spots[1], turned)};
    if (kTail && (local.data || gate.data)) pass_tail(weights, turned);
    Product x[kKeeps ? kBlocks : 1];       // S_c g, or none: it is then computed twice
    float mean_part[2] = {}, met[2] = {};  // g . mean value, and R phi(q) . S_c g
#pragma unroll(kUnrolled)
    for (int k = 0; k < kBlocks; ++k) {
      const Eight mean = eight_of(head.value_mean, column(k));
      mean_part[0] = dot(gradients.eight(0, k), mean, mean_part[0]);
      mean_part[1] = dot(gradients.eight(1, k), mean, mean_part[1]);
      if constexpr (kKeeps) {
        const Left<T> left = left_of(gradients, k);
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) add_product(x[block], block, k, left);
      }
    }
#pragma unroll(kUnrolled)
    for (int block = 0; block < kBlocks; ++block) {
      const Product product = kKeeps ? x[kKeeps ? block : 0] : product_of(block);
      met[0] = dot(turned.eight(0, block), product.upper(), met[0]);
      met[1] = dot(turned.eight(1, block), product.lower(), met[1]);
    }
    RowGradient rows[2];
    const int row = threadIdx.x / 32 * kWarpTokens + threadIdx.x % 32 / 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      rows[half] = gradient_of(weights[half], row_sum(met[half]), row_sum(mean_part[half]));
      rows[half].spot = spots[half];
      rows[half].d_query = row_of(d_query, token(half), exists(half) && writes);
      if (threadIdx.x % 4 == 0) {
        const float weight = call.centred() ? 1.0f : -weights[half].shift;
        value_weights[row + 8 * half] = exists(half) ? weight : 0.0f;
      }
    }
#pragma unroll(kUnrolled)
    for (int block = 0; block < kBlocks; ++block) {
      const Product product = kKeeps ? x[kKeeps ? block : 0] : product_of(block);
      finish(0, block, product.upper(), rows[0], turned, keys[block]);
      finish(1, block, product.lower(), rows[1], turned, keys[block]);
    }
  }

 private:
  // What a row's gradient has of S_c g, of the rotated and of the plain key.
  struct RowGradient {
    float product, rotated_key, ds;
    Spot spot;
    Row<T> d_query;
  };

  __device__ __forceinline__ RowGradient gradient_of(const RowWeights& weights, float met,
                                                     float mean_part) const {
    const float ds = fmaf(weights.product_slope, met, weights.mean_slope * mean_part);
    return {.product = weights.product,
            .rotated_key = (call.centred() ? 0.0f : weights.gain * mean_part) +
                           (call.rotated_magnitude() ? ds : 0.0f),
            .ds = ds};
  }

  __device__ __forceinline__ void finish(int half, int block, const Eight& x, const RowGradient& by,
                                         const Features& features, Eight& keys) const {
    const bool late = kTurns && call.rotated_magnitude();
    Turns turns;
    if (kTurns && call.q_turning.turns) {
      turns = turns_of_eight(call.q_turning, by.spot, column(block));
    }
    const Eight plain = phi(half, block);
    const Eight turned = features.eight(half, block);
    Eight y = scaled(x, by.product);
    if (kTurns) {
      add_scaled(y, by.rotated_key, eight_of(head.rotated_key, column(block)));
      if (call.q_turning.turns) y = rotated<true>(y, turns);
      if (!late) add_scaled(y, by.ds, eight_of(head.key, column(block)));
    } else {
      // One key for both.
      const float both = by.rotated_key + (call.rotated_magnitude() ? 0.0f : by.ds);
      add_scaled(y, both, eight_of(head.key, column(block)));
    }
    write_eight(by.d_query, column(block), times_slope(call.feature, plain, y));
    add_scaled(keys, by.ds, late ? turned : plain);
    features.set_eight(half, block, scaled(turned, by.product));
  }
};

// Grid (heads of queries, parts, chunks of values).
template <typename T, int kDim, bool kTurns, bool kTail>
__global__ void __launch_bounds__(Shape<kDim>::kThreads, kLeastBlocks<T, kDim>.query_gradients)
    query_gradients_kernel(const __grid_constant__ Call<T> call) {
  using S = Shape<kDim>;
  using Memory = QueryGradientMemory<T, kDim>;
  extern __shared__ __align__(128) std::byte shared[];
  const Memory memory{shared};
  wait_for_previous();
  let_next_begin();
  const Task task = query_task(call);
  if (task.first == task.end) return;
  const int chunk = static_cast<int>(blockIdx.z) * S::kChunk;
  const Rows<const T> q = query_rows(call.inputs.q, task, call.vectors.q);
  const Rows<const T> g = query_rows(call.out_gradient, task, call.vectors.out_gradient);
  const int tiles = static_cast<int>(divide_up(task.end - task.first, S::kTokens));
  Stager<T> queries(q, task.first, task.end, S::kTokens);
  Stager<T> gradients(g, task.first, task.end, S::kTokens);
  const LaneTile<T, kDim> lane_queries(memory.queries(0)), lane_gradients(memory.gradients(0));
  auto stage_tile = [&](int tile) {
    queries.stage(lane_queries.moved(Memory::stage(tile)));
    gradients.stage(lane_gradients.moved(Memory::stage(tile)));
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
  QueryGradients<T, kDim, kTurns, kTail> pass{
      call,
      task.unit,
      memory.vectors(),
      transposed,
      scales.c,
      chunk == 0,
      query_rows(call.inputs.local, task, call.vectors.local),
      query_rows(call.inputs.gate, task, call.vectors.gate),
      query_rows(call.gradients.q, task, call.vectors.d_query),
      query_rows(call.gradients.local, task, call.vectors.d_local),
      query_rows(call.gradients.gate, task, call.vectors.d_gate),
      lane_queries,
      lane_gradients,
      LaneTokens(call.q_turning, task, task.sequence.q_width, S::kTokens)};
  const typename Memory::Features features = memory.features();
  Sums<T, kDim> sums;
  Eight keys[kDim / kBlockCols] = {};
  for (int tile = 0; tile < tiles; ++tile) {
    wait_copies<0>();
    __syncthreads();
    if (Memory::kStages == 2 && tile + 1 < tiles) stage_tile(tile + 1);
    pass.queries = lane_queries.moved(Memory::stage(tile));
    pass.gradients = lane_gradients.moved(Memory::stage(tile));
    pass.run(features, memory.weights(), keys);
    pass.tokens.advance(S::kTokens);
    __syncthreads();
    accumulate(sums, features, memory.gradients(tile), chunk, TokenWeights{memory.weights()});
    if (Memory::kStages == 1 && tile + 1 < tiles) {
      __syncthreads();
      stage_tile(tile + 1);
    }
  }

  float* to = call.parts + task.slot * call.layout.size();
  store_sums(sums, call.layout, chunk, to);
  if (chunk > 0) return;
  __syncthreads();
  store_column_sums<kDim>(keys, reinterpret_cast<float*>(shared + Memory::kFeatures),
                          call.layout.dim, to + call.layout.keys());
  for (int i = threadIdx.x; i < call.layout.dim; i += S::kThreads) {
    to[call.layout.rotated_keys() + i] = 0.0f;  // not used here
  }
}

}  // namespace mala::gpu
