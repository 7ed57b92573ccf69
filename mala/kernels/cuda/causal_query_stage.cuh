// The queries of a tile as the second sweep of the causal backward meets them.
#pragma once

#include "mala/kernels/cuda/causal_query_gradients.cuh"

namespace mala::gpu {

// The queries of a tile after they turn, before, by their weights, which become the sums from each
// on; and the gradients of their outputs. Weights of the tile's tokens.
template <int kDim>
struct QueryTiles {
  FloatTile<kDim> rotated, sums, gradients;
  float *product, *rotated_key, *mean;

  template <typename T>
  __device__ __forceinline__ explicit QueryTiles(const SweepMemory<T, kDim>& memory)
      : rotated(memory.tile(0)),
        sums(memory.tile(1)),
        gradients(memory.tile(2)),
        product(memory.numbers(0)),
        rotated_key(memory.numbers(1)),
        mean(memory.numbers(2)) {}
};

// Fills the tiles with the tokens of one query head.
template <typename T, int kDim, class Kind>
struct CausalQueryStage {
  const Call<T>& call;
  const Task& task;  // whose head is the query head
  QueryTiles<kDim> tiles;
  RawRows<T, kDim> q;
  TailGradient<T, kDim> gradient;
  const SweepWeights* weights;
  bool joins;  // weights of keys and of rotated keys, which are one: there are no plain ones then

  __device__ __forceinline__ CausalQueryStage(const Call<T>& of, const Task& part,
                                              const QueryTiles<kDim>& to,
                                              const SweepMemory<T, kDim>& memory,
                                              bool joins_weights)
      : call(of),
        task(part),
        tiles(to),
        q(memory.raw(0, query_rows<Kind>(of.inputs.q, part, of.vectors.q), of.layout.dim)),
        gradient{memory.raw(1, query_rows<Kind>(of.out_gradient, part, of.vectors.out_gradient),
                            of.layout.value_dim),
                 query_rows<Kind>(of.inputs.gate, part, of.vectors.gate)},
        weights(weights_of(of, part.sequence, part.head)),
        joins(joins_weights) {}

  __device__ __forceinline__ void ask_for(int64_t first) const {
    q.ask_for(first, task.end);
    gradient.out_gradient.ask_for(first, task.end);
    commit_copies();
  }

  // Weighted queries, or what they add to those of other heads. Where nothing turns, they are
  // rounded as rotated ones are, whose sums theirs are added to after the parts.
  __device__ __forceinline__ void stage_sums(int64_t first, bool adds) const {
    for_each_eight(first, [&](int row, int64_t token, bool exists, int column, const Spot&) {
      Eight x{};
      if (adds) x = tiles.sums.eight(row, column);
      if (exists && column < call.layout.dim && !joins) {
        const Eight phi = phi_of(row, token, column);
        add_scaled(x, weights[token].plain, nothing_turns<Kind>(call) ? as_operands<T>(phi) : phi);
      }
      tiles.sums.set_eight(row, column, x);
    });
  }
  __device__ __forceinline__ void stage(int64_t first) const {
    if (threadIdx.x < kTileTokens) {
      const int64_t token = first + threadIdx.x;
      const SweepWeights w = token < task.end ? weights[token] : SweepWeights{};
      tiles.product[threadIdx.x] = w.product;
      tiles.rotated_key[threadIdx.x] = joins ? w.rotated + w.plain : w.rotated;
      tiles.mean[threadIdx.x] = w.mean;
    }
    for_each_eight(first, [&](int row, int64_t token, bool exists, int column, const Spot& spot) {
      Eight x{};
      if (exists && column < call.layout.dim) {
        const Turns<Kind::kHow, 8> by(call.q_turning, spot, column);
        x = as_operands<T>(rotated<false>(phi_of(row, token, column), call.q_turning, by));
      }
      tiles.rotated.set_eight(row, column, x);
      const bool wanted = exists && column < call.layout.value_dim;
      tiles.gradients.set_eight(row, column,
                                as_operands<T>(gradient.read(row, token, wanted, column)));
    });
  }

 private:
  __device__ __forceinline__ Eight phi_of(int row, int64_t token, int column) const {
    return features<T>(Kind::feature(call), q.eight(row, token, true, column));
  }
  template <class Body>
  __device__ __forceinline__ void for_each_eight(int64_t first, Body body) const {
    const SweepLane lane;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = lane.row() + 8 * half;
      const int64_t token = first + row;
      const bool exists = token < task.end;
      const Spot spot = spot_at<Kind>(call.q_turning, task.sequence.earlier + token,
                                      task.sequence.q_width, exists);
#pragma unroll
      for (int block = 0; block < 2; ++block) {
        body(row, token, exists, lane.column(block), spot);
      }
    }
  }
};

}  // namespace mala::gpu
