// A call of the C interface with memory of its own, for the tests to change and to run.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mala/kernels/attention.h"
#include "mala/kernels/attention_c.h"

namespace mala {

// Numbers between -1 and 1 without a pattern that a transposed index would keep.
template <typename T>
std::vector<T> numbers(int64_t count, uint32_t seed) {
  std::vector<T> x(count);
  for (T& value : x) {
    seed = seed * 1664525u + 1013904223u;
    value = round_to<T>(static_cast<Compute<T>>(static_cast<int32_t>(seed >> 8) - (1 << 23)) /
                        (1 << 23));
  }
  return x;
}

// What a call has besides numbers: its sizes, and which tokens belong together.
struct Shape {
  int64_t batch = 2, heads = 3, kv_heads = 3, queries = 5, keys = 7;
  Lengths lengths = {};
};

// A call with all five tensors, D 16, E 8, in memory order (B, N, H, D).
template <typename T>
struct Call {
  static constexpr int64_t kDim = 16, kValueDim = 8;

  Shape shape;
  std::vector<T> q = numbers<T>(shape.batch * shape.heads * shape.queries * kDim, 1);
  std::vector<T> k = numbers<T>(shape.batch * shape.kv_heads * shape.keys * kDim, 2);
  std::vector<T> v = numbers<T>(shape.batch * shape.kv_heads * shape.keys * kValueDim, 3);
  std::vector<T> local = numbers<T>(shape.batch * shape.heads * shape.queries * kValueDim, 4);
  std::vector<T> gate = numbers<T>(local.size(), 5);
  std::vector<T> out_gradient = numbers<T>(local.size(), 6);
  std::vector<T> out = std::vector<T>(local.size());
  std::vector<T> dq = q, dk = k, dv = v, dlocal = local, dgate = gate;
  std::vector<Compute<T>> state;
  std::vector<std::byte> scratch;
  mala_attention_inputs inputs{};
  mala_attention_gradients gradients{};
  mala_options options = mala_options_default();

  explicit Call(const Shape& of = {}) : shape(of) {
    const Lengths& lengths = shape.lengths;
    inputs = {.struct_size = sizeof inputs,
              .dtype = static_cast<int64_t>(dtype_of<T>()),
              .q = of_queries(q, kDim),
              .k = of_keys(k, kDim),
              .v = of_keys(v, kValueDim),
              .local = of_queries(local, kValueDim),
              .gate = of_queries(gate, kValueDim),
              .key_counts = integers(lengths.key_counts),
              .q_offsets = integers(lengths.q_offsets),
              .k_offsets = integers(lengths.k_offsets),
              .q_widths = integers(lengths.q_widths),
              .k_widths = integers(lengths.k_widths)};
    gradients = {.struct_size = sizeof gradients,
                 .q = of_queries(dq, kDim),
                 .k = of_keys(dk, kDim),
                 .v = of_keys(dv, kValueDim),
                 .local = of_queries(dlocal, kValueDim),
                 .gate = of_queries(dgate, kValueDim)};
    int64_t bytes = 0;
    EXPECT_EQ(mala_attention_state_bytes(&inputs, &bytes), MALA_OK) << mala_last_error();
    state.resize(bytes / sizeof(Compute<T>));
    EXPECT_EQ(mala_attention_scratch_bytes(&inputs, &options, &bytes), MALA_OK);
    scratch.resize(bytes);
  }

  mala_tensor tensor(std::vector<T>& x, int64_t heads, int64_t tokens, int64_t dim) const {
    return {
        x.data(), {shape.batch, heads, tokens, dim}, {tokens * heads * dim, dim, heads * dim, 1}};
  }
  mala_tensor of_queries(std::vector<T>& x, int64_t dim) const {
    return tensor(x, shape.heads, shape.queries, dim);
  }
  mala_tensor of_keys(std::vector<T>& x, int64_t dim) const {
    return tensor(x, shape.kv_heads, shape.keys, dim);
  }
  static mala_integers integers(std::span<const int64_t> x) {
    return {x.data(), static_cast<int64_t>(x.size())};
  }

  static HeadsView<T> view(const mala_tensor& t) {
    return {static_cast<T*>(t.data),
            t.sizes[0],
            t.sizes[1],
            t.sizes[2],
            t.sizes[3],
            t.strides[0],
            t.strides[1],
            t.strides[2],
            t.strides[3]};
  }

  mala_tensor out_tensor() { return of_queries(out, kValueDim); }
  mala_tensor out_gradient_tensor() { return of_queries(out_gradient, kValueDim); }
  mala_buffer state_buffer() {
    return {state.data(), static_cast<int64_t>(state.size() * sizeof(Compute<T>))};
  }
  mala_buffer scratch_buffer() { return {scratch.data(), static_cast<int64_t>(scratch.size())}; }

  mala_status forward() {
    const mala_tensor to = out_tensor();
    return mala_attention_forward(&inputs, &options, &to, state_buffer(), scratch_buffer());
  }
  mala_status backward() {
    const mala_tensor from = out_gradient_tensor();
    return mala_attention_backward(&inputs, &options, &from, state_buffer(), &gradients,
                                   scratch_buffer());
  }
};

}  // namespace mala
