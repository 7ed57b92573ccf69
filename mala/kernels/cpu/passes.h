// The four passes over tokens that the instruction sets implement, each on a span of tokens of
// one head. They neither allocate nor check.
#pragma once

#include <cstdint>

#include "mala/kernels/attention.h"
#include "mala/kernels/cpu/layout.h"
#include "mala/kernels/cpu/plan.h"
#include "mala/kernels/cpu/rope.h"
#include "mala/kernels/cpu/stored.h"

namespace mala::cpu {

// One worker's working memory: (kBlock, padded D) or (kBlock, padded E) each.
template <typename T>
struct Tiles {
  T *features, *rotated, *products, *d_features;  // D
  T *values, *outputs, *local, *gate;             // E
  T* group;                                       // sums of up to kGroup tokens, StateLayout
};

// What every query or key of a head meets. Rows are padded with zeros.
template <typename T>
struct HeadOperands {
  T* state;             // (D, E): S, centred for the balanced norm
  T* state_transposed;  // (E, D)
  T* key;               // (D): scale * mean key, rotated for the printed norm
  T* value_mean;        // (E)
  // Gradients, for the last pass:
  T* d_state;             // (D, E)
  T* d_state_transposed;  // (E, D)
  T* d_key;               // (D): what each feature of a key receives from the sum of keys
  T* d_rotated_key;       // (D): the same of the sum of rotated keys
  T* d_value;             // (E): what each value receives from the sum of values
};

struct Weighting {
  Rule rule;
  Norm norm;
  double eps;
  double c;  // scale * kappa

  bool rotated_magnitude() const { return norm == Norm::kPrinted; }
  bool centred() const { return norm == Norm::kBalanced; }
};

// The queries or keys that a pass walks over, counted from the first of their sequence.
struct Tokens {
  Input x;
  Feature feature;
  const RopeAngles* angles;
  int64_t image_width;  // for RoPE in a grid
  Span span;
  int64_t earlier = 0;  // tokens of the sequence before the first row of x
};

// sums += the state of these keys.
template <typename T>
struct SumKeys {
  Tokens keys;
  Input values;
  double* sums;  // StateLayout
};

// out = (c * gain * P - shift * mean value + local) * gate.
template <typename T>
struct ApplyQueries {
  Tokens queries;
  Input local, gate;
  HeadOperands<T> head;
  Weighting weighting;
  Output out;
};

// Writes dq, dlocal and dgate; sums += the gradient of the state: dS, the sum of ds_i phi(q_i)
// in the place of the keys, and the sum of -shift_i g_i (balanced: g_i) in that of the values.
template <typename T>
struct QueryGradients {
  Tokens queries;
  Input out_gradient, local, gate;
  HeadOperands<T> head;
  Weighting weighting;
  Output d_query, d_local, d_gate;
  double* sums;
};

// The ways by which the gradient of a state reaches a key, besides dS: the sum of keys, that of
// rotated keys, and values that count less their mean.
struct KeyTerms {
  bool plain, rotated, centred;
};

// Writes dk and dv.
template <typename T>
struct KeyGradients {
  Tokens keys;
  Input values;
  HeadOperands<T> head;
  KeyTerms terms;
  Output d_key, d_value;
};

template <typename T>
struct Passes {
  void (*sum_keys)(const SumKeys<T>&, const Tiles<T>&);
  void (*apply_queries)(const ApplyQueries<T>&, const Tiles<T>&);
  void (*query_gradients)(const QueryGradients<T>&, const Tiles<T>&);
  void (*key_gradients)(const KeyGradients<T>&, const Tiles<T>&);
};

// Those of the instruction set in use.
template <typename T>
const Passes<T>& passes();

}  // namespace mala::cpu
