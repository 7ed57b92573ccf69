// The passes of the causal form that the instruction sets implement. Each walks over a span of
// tokens of one unit, block by block, with sums that run along. They neither allocate nor check.
#pragma once

#include <cstdint>
#include <type_traits>

#include "mala/kernels/cpu/passes.h"

namespace mala::cpu {

// One worker's working memory; see causal_workspace.h.
template <typename T>
struct CausalTiles {
  T *queries, *rotated_queries, *keys, *rotated_keys;        // (kBlock, D)
  T *key_sums, *rotated_key_sums, *d_features, *d_tokens;    // (kBlock, D)
  T *values, *means, *attention, *outputs;                   // (kBlock, E)
  T *local, *gate, *gradient, *weighted_gradient, *d_value;  // (kBlock, E)
  T *dim_columns, *value_columns;                            // (D, kBlock), (E, kBlock)
  T* scores;                                                 // (kBlock, kBlock)
  T *now, *base, *group, *other_group;                       // StateLayout
  T* centre;                                                 // (E)
  T *mean_key, *value_row;                                   // (D), (E)
  T* transposed;                                             // (E, D)
};

struct CausalWeighting {
  Rule rule;
  Norm norm;
  double eps, scale;
  bool key_mean;

  bool needs_plain() const { return norm != Norm::kPrinted; }      // s, before rotation
  bool needs_rotated() const { return norm != Norm::kPublished; }  // r, after it
};

CausalWeighting causal_weighting(const AttentionOptions& options, int64_t dim);

// The same matrix of every query head of a unit.
template <typename Void>
struct Members {
  Stored<Void> first;
  int64_t stride = 0;  // in elements

  Stored<Void> of(int64_t member) const {
    Stored<Void> one = first;
    using Byte = std::conditional_t<std::is_const_v<Void>, const char, char>;
    if (one.data) one.data = static_cast<Byte*>(one.data) + member * stride * bytes_of(one.dtype);
    return one;
  }
};

// The keys of a unit, and what they do to the sums.
template <typename T>
struct CausalKeys {
  Tokens keys;  // the span counts queries: beyond `key_count` there is no key
  Input values;
  int64_t key_count;
  CausalWeighting weighting;
  // (E), padded with zeros; subtracted from every value. The sums are those of such values. Where
  // rows sum to one this moves the output by as much, and values near zero lose fewer digits.
  // Forward sweeps move on to the mean so far, and give the sums back about this centre.
  const T* centre;
};

template <typename T>
struct CausalQueries {
  int64_t group;   // query heads
  Tokens queries;  // of the first
  Members<const void> x, local, gate;

  Tokens of(int64_t member) const {
    Tokens tokens = queries;
    tokens.x = x.of(member);
    return tokens;
  }
};

// Writes out; sums, those before the span, become those after it where they are wanted.
template <typename T>
struct CausalForward {
  CausalKeys<T> keys;
  CausalQueries<T> queries;
  Members<void> out;
  double* sums;  // StateLayout
  bool wants_sums;
};

// With which weight a token enters the gradients of the four sums.
template <typename T>
struct TokenWeights {
  T product, key, rotated_key, value;
};

// The forward sweep of the backward: as CausalForward, but writes dq, dlocal, dgate and the
// weights of the tokens, and leaves nothing of use in the sums. Where `gradients` is given, what
// the span adds to the gradient of the sums.
template <typename T>
struct CausalQueryGradients {
  CausalKeys<T> keys;
  CausalQueries<T> queries;
  Members<const void> out_gradient;
  Members<void> d_query, d_local, d_gate;
  TokenWeights<T>* weights;  // (group, weights_stride), counted as the tokens are
  int64_t weights_stride;
  double *sums, *gradients;
};

// The reverse sweep: gradients, those of the sums after the span, become those before it; writes
// dk and dv.
template <typename T>
struct CausalKeyGradients {
  CausalKeys<T> keys;
  CausalQueries<T> queries;
  Members<const void> out_gradient;
  const TokenWeights<T>* weights;
  int64_t weights_stride;
  Output d_key, d_value;
  double* gradients;
};

// One token of one sequence, for some of its heads: their states, dense and in double, are brought
// up to date in place.
template <typename T>
struct CausalStep {
  Tokens key, query;  // of the first head
  Members<const void> k, v, q, local, gate;
  Members<void> out;
  CausalWeighting weighting;
  int64_t heads, group;  // of keys; query heads for each
  double* state;         // as attention_state_size has it
};

template <typename T>
struct CausalPasses {
  void (*sum_keys)(const CausalKeys<T>&, double* sums, const CausalTiles<T>&);
  void (*forward)(const CausalForward<T>&, const CausalTiles<T>&);
  void (*query_gradients)(const CausalQueryGradients<T>&, const CausalTiles<T>&);
  void (*key_gradients)(const CausalKeyGradients<T>&, const CausalTiles<T>&);
  void (*step)(const CausalStep<T>&);
};

// Those of the instruction set in use.
template <typename T>
const CausalPasses<T>& causal_passes();

}  // namespace mala::cpu
