// The caller's scratch for the causal form: sums of spans, weights of tokens, the workers' tiles.
#pragma once

#include <utility>

#include "mala/core/parallel.h"
#include "mala/kernels/cpu/causal_passes.h"
#include "mala/kernels/cpu/layout.h"
#include "mala/kernels/cpu/workspace.h"

namespace mala::cpu {

template <typename T>
struct CausalWorkspace {
  StateLayout layout;
  double* sums;              // StateLayout, slot after slot
  double* gradients;         // likewise; for the backward
  T* centres;                // padded E, unit after unit
  TokenWeights<T>* weights;  // token after token; for the backward
  T* tiles;                  // CausalTiles, worker after worker

  struct Sizes {
    int64_t sums, gradients, units, weights;
  };

  CausalWorkspace(const StateLayout& of, const Sizes& sizes, Arena& arena) : layout(of) {
    sums = arena.take<double>(sizes.sums * layout.size());
    gradients = arena.take<double>(sizes.gradients * layout.size());
    centres = arena.take<T>(sizes.units * layout.value_pad());
    weights = arena.take<TokenWeights<T>>(sizes.weights);
    tiles = arena.take<T>(max_workers() * tiles_size());
  }

  double* sums_in(int64_t slot) const { return sums + slot * layout.size(); }
  double* gradients_in(int64_t slot) const { return gradients + slot * layout.size(); }
  T* centre_of(int64_t unit) const { return centres + unit * layout.value_pad(); }

  CausalTiles<T> tiles_of(int64_t worker) const {
    const int64_t dim = kBlock * layout.dim_pad(), value_dim = kBlock * layout.value_pad();
    T* next = tiles + worker * tiles_size();
    auto take = [&next](int64_t count) { return std::exchange(next, next + count); };
    return {.queries = take(dim),
            .rotated_queries = take(dim),
            .keys = take(dim),
            .rotated_keys = take(dim),
            .key_sums = take(dim),
            .rotated_key_sums = take(dim),
            .d_features = take(dim),
            .d_tokens = take(dim),
            .values = take(value_dim),
            .means = take(value_dim),
            .attention = take(value_dim),
            .outputs = take(value_dim),
            .local = take(value_dim),
            .gate = take(value_dim),
            .gradient = take(value_dim),
            .weighted_gradient = take(value_dim),
            .d_value = take(value_dim),
            .dim_columns = take(dim),
            .value_columns = take(value_dim),
            .scores = take(kBlock * kBlock),
            .now = take(layout.size()),
            .base = take(layout.size()),
            .group = take(layout.size()),
            .other_group = take(layout.size()),
            .centre = take(layout.value_pad()),
            .mean_key = take(layout.dim_pad()),
            .value_row = take(layout.value_pad()),
            .transposed = take(layout.value_dim * layout.dim_pad())};
  }

 private:
  int64_t tiles_size() const {
    return kBlock * (9 * layout.dim_pad() + 10 * layout.value_pad() + kBlock) + 4 * layout.size() +
           layout.dim_pad() + 2 * layout.value_pad() + layout.value_dim * layout.dim_pad();
  }
};

}  // namespace mala::cpu
