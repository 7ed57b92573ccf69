// Forward: sum keys, finish the states, apply queries. Backward: queries, state gradients, keys.
#include "mala/kernels/cpu/attention.h"

#include "mala/core/parallel.h"
#include "mala/kernels/cpu/heads.h"
#include "mala/kernels/cpu/passes.h"
#include "mala/kernels/cpu/workspace.h"

namespace mala::cpu {
namespace {

// A call: its inputs, its angles and its workspace.
template <typename T>
struct Call {
  const AttentionInputs<T>& inputs;
  const AttentionOptions& options;
  RopeAngles q_angles, k_angles;
  Arena arena;
  Workspace<T> space;
  HeadScales scales;
  const Passes<T>& kernels;  // chosen here, where a wrong MALA_ISA may still throw

  Call(const AttentionInputs<T>& in, const AttentionOptions& with, std::span<std::byte> scratch)
      : inputs(in),
        options(with),
        q_angles(with.q_rope, in.q.dim),
        k_angles(with.k_rope, in.q.dim, q_angles),
        arena(scratch.data()),
        space(in, arena),
        scales(head_scales(with, in.q.dim, in.k.tokens)),
        kernels(passes<T>()) {}

  int64_t heads() const { return inputs.q.batch * inputs.q.heads; }

  template <typename U>
  MatrixView<U> of(const HeadsView<U>& view, int64_t head) const {
    return view.data ? view.head(head / view.heads, head % view.heads) : MatrixView<U>{};
  }

  Tokens<T> queries(int64_t head, int64_t part) const {
    return {of(inputs.q, head), options.feature, &q_angles, space.queries.part(part)};
  }

  Tokens<T> keys(int64_t head, int64_t part) const {
    return {of(inputs.k, head), options.feature, &k_angles, space.keys.part(part)};
  }

  template <typename U>
  HeadState<U> state(std::span<U> all, int64_t head) const {
    const int64_t size = attention_state_size(1, 1, space.layout.dim, space.layout.value_dim);
    return {all.data() + head * size, space.layout.dim, space.layout.value_dim};
  }

  // Sums of a part; those of a head's parts follow each other.
  double* sums(int64_t head, const Split& split, int64_t part) const {
    return space.sums + (head * split.parts + part) * space.layout.size();
  }
};

// body(head, part, tiles) for every part of every head.
template <typename T, class Body>
void for_each_part(const Call<T>& call, const Split& split, Body body) {
  parallel_for(call.heads() * split.parts, [&](int64_t task, int64_t worker) {
    body(task / split.parts, task % split.parts, call.space.tiles_of(worker));
  });
}

template <typename T>
void sum_keys(const Call<T>& call) {
  for_each_part(call, call.space.keys, [&](int64_t head, int64_t part, const Tiles<T>& tiles) {
    call.kernels.sum_keys({.keys = call.keys(head, part),
                           .values = call.of(call.inputs.v, head),
                           .sums = call.sums(head, call.space.keys, part)},
                          tiles);
  });
}

template <typename T>
void finish_states(const Call<T>& call, std::span<T> state) {
  const StateLayout& layout = call.space.layout;
  parallel_for(call.heads(), [&](int64_t head, int64_t) {
    double* sums = call.sums(head, call.space.keys, 0);
    add_parts(sums, call.space.keys.parts, layout.size());
    write_state(sums, layout, call.state(state, head));
    prepare_head(call.state(std::span<const T>(state), head), layout, call.scales,
                 call.space.head(head));
  });
}

template <typename T>
void apply_queries(const Call<T>& call, HeadsView<T> out) {
  for_each_part(call, call.space.queries, [&](int64_t head, int64_t part, const Tiles<T>& tiles) {
    call.kernels.apply_queries({.queries = call.queries(head, part),
                                .local = call.of(call.inputs.local, head),
                                .gate = call.of(call.inputs.gate, head),
                                .head = call.space.head(head),
                                .weighting = call.scales.weighting,
                                .out = call.of(out, head)},
                               tiles);
  });
}

template <typename T>
void restore_states(const Call<T>& call, std::span<const T> state) {
  parallel_for(call.heads(), [&](int64_t head, int64_t) {
    prepare_head(call.state(state, head), call.space.layout, call.scales, call.space.head(head));
    transpose_state(call.space.layout, call.space.head(head));
  });
}

template <typename T>
void query_gradients(const Call<T>& call, HeadsView<const T> out_gradient,
                     const AttentionGradients<T>& gradients) {
  for_each_part(call, call.space.queries, [&](int64_t head, int64_t part, const Tiles<T>& tiles) {
    call.kernels.query_gradients({.queries = call.queries(head, part),
                                  .out_gradient = call.of(out_gradient, head),
                                  .local = call.of(call.inputs.local, head),
                                  .gate = call.of(call.inputs.gate, head),
                                  .head = call.space.head(head),
                                  .weighting = call.scales.weighting,
                                  .d_query = call.of(gradients.q, head),
                                  .d_local = call.of(gradients.local, head),
                                  .d_gate = call.of(gradients.gate, head),
                                  .sums = call.sums(head, call.space.queries, part)},
                                 tiles);
  });
}

template <typename T>
void finish_state_gradients(const Call<T>& call, std::span<const T> state) {
  const StateLayout& layout = call.space.layout;
  parallel_for(call.heads(), [&](int64_t head, int64_t) {
    double* sums = call.sums(head, call.space.queries, 0);
    add_parts(sums, call.space.queries.parts, layout.size());
    prepare_head_gradient(sums, call.state(state, head), layout, call.scales,
                          call.space.head(head));
  });
}

template <typename T>
void key_gradients(const Call<T>& call, const AttentionGradients<T>& gradients) {
  for_each_part(call, call.space.keys, [&](int64_t head, int64_t part, const Tiles<T>& tiles) {
    call.kernels.key_gradients({.keys = call.keys(head, part),
                                .values = call.of(call.inputs.v, head),
                                .head = call.space.head(head),
                                .weighting = call.scales.weighting,
                                .d_key = call.of(gradients.k, head),
                                .d_value = call.of(gradients.v, head)},
                               tiles);
  });
}

}  // namespace

template <typename T>
int64_t attention_scratch_bytes(const AttentionInputs<T>& inputs) {
  Arena counting(nullptr);
  Workspace<T> space(inputs, counting);
  return counting.bytes_needed();
}

template <typename T>
void attention_forward(const AttentionInputs<T>& inputs, const AttentionOptions& options,
                       HeadsView<T> out, std::span<T> state, std::span<std::byte> scratch) {
  const Call<T> call(inputs, options, scratch);
  sum_keys(call);
  finish_states(call, state);
  apply_queries(call, out);
}

template <typename T>
void attention_backward(const AttentionInputs<T>& inputs, const AttentionOptions& options,
                        HeadsView<const T> out_gradient, std::span<const T> state,
                        const AttentionGradients<T>& gradients, std::span<std::byte> scratch) {
  const Call<T> call(inputs, options, scratch);
  restore_states(call, state);
  query_gradients(call, out_gradient, gradients);
  finish_state_gradients(call, state);
  key_gradients(call, gradients);
}

#define MALA_INSTANTIATE(T)                                                            \
  template int64_t attention_scratch_bytes(const AttentionInputs<T>&);                 \
  template void attention_forward(const AttentionInputs<T>&, const AttentionOptions&,  \
                                  HeadsView<T>, std::span<T>, std::span<std::byte>);   \
  template void attention_backward(const AttentionInputs<T>&, const AttentionOptions&, \
                                   HeadsView<const T>, std::span<const T>,             \
                                   const AttentionGradients<T>&, std::span<std::byte>)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(double);
#undef MALA_INSTANTIATE

}  // namespace mala::cpu
