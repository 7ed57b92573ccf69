// The halves of a call: the passes over keys, or those over queries, with the state between them in
// the caller's hands.
#include "mala/kernels/cuda/split.h"

#include <algorithm>

#include "mala/kernels/checks.h"
#include "mala/kernels/cuda/passes.h"
#include "mala/kernels/cuda/split_state.h"

namespace mala::gpu {
namespace {

// Keys as a call whose queries nobody asks for.
template <typename T>
AttentionInputs<T> as_call(const KeysInputs<T>& inputs) {
  AttentionInputs<T> call{.q = inputs.k, .k = inputs.k, .v = inputs.v, .lengths = inputs.lengths};
  call.lengths.q_offsets = call.lengths.k_offsets;
  call.lengths.q_widths = call.lengths.k_widths;
  return call;
}
AttentionOptions of_keys(AttentionOptions options) {
  options.q_rope = options.k_rope;
  return options;
}

// Queries as a call whose keys are in its state alone.
template <typename T>
AttentionInputs<T> as_call(const QueriesInputs<T>& inputs, int64_t heads, int64_t value_dim) {
  AttentionInputs<T> call{
      .q = inputs.q, .local = inputs.local, .gate = inputs.gate, .lengths = inputs.lengths};
  call.k = inputs.q;
  call.k.data = nullptr;
  call.k.heads = heads;
  call.v = call.k;
  call.v.dim = value_dim;
  call.lengths.k_offsets = call.lengths.q_offsets;
  call.lengths.k_widths = call.lengths.q_widths;
  return call;
}
AttentionOptions of_queries(AttentionOptions options) {
  options.k_rope = options.q_rope;
  return options;
}

template <typename T>
Plan<T> plan_of(const KeysInputs<T>& inputs, const AttentionOptions& options, Direction direction,
                const Launcher& on, std::span<std::byte> scratch) {
  return Plan<T>(as_call(inputs), of_keys(options), direction, on.device(), scratch,
                 {.keys_alone = true});
}
template <typename T>
Plan<T> plan_of(const QueriesInputs<T>& inputs, const AttentionOptions& options,
                const TotalState<T>& state, int64_t value_dim, Direction direction,
                const Launcher& on, std::span<std::byte> scratch) {
  return Plan<T>(as_call(inputs, state.heads, value_dim), of_queries(options), direction,
                 on.device(), scratch, {.keys_in_state = state.key_counts});
}

template <typename T>
void check_memory(const char* where, const Plan<T>& plan, std::span<const float> state,
                  std::span<const std::byte> scratch) {
  check_state_size(where, "the state or its gradient", static_cast<int64_t>(state.size()),
                   plan.units() * plan.call.layout.size());
  check_size(where, "scratch (in bytes)", static_cast<int64_t>(scratch.size()), plan.scratch_bytes,
             "ask for the scratch bytes with the same device current");
  check(reinterpret_cast<uintptr_t>(state.data()) % 16 == 0, where,
        "the state does not begin at a multiple of 16 bytes; take it from cudaMalloc or an ",
        "allocator that aligns as well");
}

}  // namespace

template <typename T>
int64_t keys_scratch_bytes(const KeysInputs<T>& inputs, const AttentionOptions& options) {
  check_keys_inputs("keys_scratch_bytes", inputs, options);
  const Launcher on(nullptr);
  return std::max(plan_of(inputs, options, Direction::kForward, on, {}).scratch_bytes,
                  plan_of(inputs, options, Direction::kBackward, on, {}).scratch_bytes);
}

template <typename T>
int64_t queries_scratch_bytes(const QueriesInputs<T>& inputs, const AttentionOptions& options,
                              const TotalState<T>& state, int64_t value_dim) {
  check_queries_inputs("queries_scratch_bytes", inputs, options, state, value_dim);
  const Launcher on(nullptr);
  auto bytes = [&](Direction direction) {
    return plan_of(inputs, options, state, value_dim, direction, on, {}).scratch_bytes;
  };
  return std::max(bytes(Direction::kForward), bytes(Direction::kBackward));
}

template <typename T>
void keys_forward(const KeysInputs<T>& inputs, const AttentionOptions& options,
                  std::span<float> state, std::span<std::byte> scratch, void* stream) {
  constexpr const char* kWhere = "keys_forward";
  check_keys_inputs(kWhere, inputs, options);
  Launcher on(stream, inputs.k);
  Plan<T> plan = plan_of(inputs, options, Direction::kForward, on, scratch);
  check_memory<T>(kWhere, plan, state, scratch);
  plan.call.state = state.data();
  plan.launch_tables(on);
  run_sum_keys(on, plan);
}

template <typename T>
void queries_forward(const QueriesInputs<T>& inputs, const AttentionOptions& options,
                     const TotalState<T>& state, HeadsView<T> out, std::span<std::byte> scratch,
                     void* stream) {
  constexpr const char* kWhere = "queries_forward";
  check_queries_inputs(kWhere, inputs, options, state, out.dim);
  check_output(kWhere, "out", out, inputs.q, out.dim);
  Launcher on(stream, inputs.q);
  Plan<T> plan = plan_of(inputs, options, state, out.dim, Direction::kForward, on, scratch);
  check_memory<T>(kWhere, plan, state.sums, scratch);
  plan.set_tensors(out);
  plan.call.state = const_cast<float*>(state.sums.data());  // which the passes only read
  plan.launch_tables(on);
  run_apply_queries(on, plan);
}

template <typename T>
void queries_backward(const QueriesInputs<T>& inputs, const AttentionOptions& options,
                      const TotalState<T>& state, HeadsView<const T> out_gradient,
                      const AttentionGradients<T>& gradients, std::span<float> state_gradient,
                      std::span<std::byte> scratch, void* stream) {
  constexpr const char* kWhere = "queries_backward";
  const int64_t value_dim = out_gradient.dim;
  check_queries_inputs(kWhere, inputs, options, state, value_dim);
  check_input_like(kWhere, "out_gradient", out_gradient, inputs.q, value_dim);
  check_output(kWhere, "gradient of q", gradients.q, inputs.q, inputs.q.dim);
  check_tail_gradient(kWhere, "gradient of local", gradients.local, inputs.local);
  check_tail_gradient(kWhere, "gradient of gate", gradients.gate, inputs.gate);
  Launcher on(stream, inputs.q);
  Plan<T> plan = plan_of(inputs, options, state, value_dim, Direction::kBackward, on, scratch);
  check_memory<T>(kWhere, plan, state.sums, scratch);
  check_memory<T>(kWhere, plan, state_gradient, scratch);
  plan.set_tensors(out_gradient, gradients);
  plan.call.state = const_cast<float*>(state.sums.data());
  plan.launch_tables(on);
  run_query_gradients(on, plan);
  launch_give_state_gradient(on, plan.call, state_gradient.data());
}

template <typename T>
void keys_backward(const KeysInputs<T>& inputs, const AttentionOptions& options,
                   std::span<const float> state_gradient, const AttentionGradients<T>& gradients,
                   std::span<std::byte> scratch, void* stream) {
  constexpr const char* kWhere = "keys_backward";
  check_keys_inputs(kWhere, inputs, options);
  check_output(kWhere, "gradient of k", gradients.k, inputs.k, inputs.k.dim);
  check_output(kWhere, "gradient of v", gradients.v, inputs.v, inputs.v.dim);
  Launcher on(stream, inputs.k);
  Plan<T> plan = plan_of(inputs, options, Direction::kBackward, on, scratch);
  check_memory<T>(kWhere, plan, state_gradient, scratch);
  plan.set_tensors({}, gradients);
  // About means of zero, and as they stand: what rule and norm make of them the queries have done.
  plan.call.norm = Norm::kPublished;
  plan.call.scale = 1.0f;
  plan.call.key_mean = false;
  plan.call.state = plan.call.parts;
  plan.launch_tables(on);
  launch_take_state_gradient(on, plan.call, state_gradient.data());
  run_key_gradients(on, plan);
}

#define MALA_INSTANTIATE(T)                                                                       \
  template int64_t keys_scratch_bytes(const KeysInputs<T>&, const AttentionOptions&);             \
  template int64_t queries_scratch_bytes(const QueriesInputs<T>&, const AttentionOptions&,        \
                                         const TotalState<T>&, int64_t);                          \
  template void keys_forward(const KeysInputs<T>&, const AttentionOptions&, std::span<float>,     \
                             std::span<std::byte>, void*);                                        \
  template void queries_forward(const QueriesInputs<T>&, const AttentionOptions&,                 \
                                const TotalState<T>&, HeadsView<T>, std::span<std::byte>, void*); \
  template void queries_backward(                                                                 \
      const QueriesInputs<T>&, const AttentionOptions&, const TotalState<T>&, HeadsView<const T>, \
      const AttentionGradients<T>&, std::span<float>, std::span<std::byte>, void*);               \
  template void keys_backward(const KeysInputs<T>&, const AttentionOptions&,                      \
                              std::span<const float>, const AttentionGradients<T>&,               \
                              std::span<std::byte>, void*)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala::gpu
