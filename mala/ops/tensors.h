// What the operators share in checking tensors and in allocating results. Tensors may be without
// memory and have sizes that are symbols, and then the results are so too.
#pragma once

#include <array>

#include "mala/ops/calls.h"

namespace mala::ops {

// A tensor and its name in the schema.
struct NamedTensor {
  const char* name;
  const Tensor& tensor;
};

// Throws "[where] ..." unless the first of the tensors has a type that the kernels know.
void check_type(const char* where, const NamedTensor& x);

// Throws unless x has four dimensions and the type and device of `like`. Sizes of the others are
// for the kernels to check: they see strides and token counts too.
void check_tensor(const char* where, const NamedTensor& x, const NamedTensor& like);
void check_tail(const char* where, const TailArguments& tail, const NamedTensor& like);

// Throws unless the tensor that holds states has this type, the device of `like` and these sizes.
// `source` says where to get the right one.
struct StateNeeds {
  at::ScalarType type;
  std::array<c10::SymInt, 3> sizes;
  const char* source;
};
void check_state(const char* where, const NamedTensor& state, const NamedTensor& like,
                 const StateNeeds& needs);

// (sequences, Hk, elements of one head's state)
std::array<c10::SymInt, 3> state_sizes(const c10::SymInt& sequences, const Tensor& k,
                                       const Tensor& v);

// Sums are kept in float32 for the narrower types.
at::ScalarType sum_type(const Tensor& x);

Tensor new_state(const std::array<c10::SymInt, 3>& sizes, at::ScalarType type, const Tensor& model);

// out and each gradient keep the order in memory of their model, q or the input, but densely:
// (B, H, N, E), or (B, N, H, E) where it has tokens outside of heads, or (B, H, E, N) where it
// has channels outside of tokens, as channels-first images have.
Tensor new_out(const Tensor& q, const c10::SymInt& value_dim);
Tensor new_like(const Tensor& model);
// A defined tensor stands for an absent gradient: tracers do not take undefined ones.
Tensor new_like(const std::optional<Tensor>& model, const Tensor& q);

}  // namespace mala::ops
