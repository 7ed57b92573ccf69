// Forward: sum keys, add the parts, apply queries. Backward: queries, add the parts, keys. Either
// may be one kernel.
#include "mala/kernels/cuda/attention.h"

#include "mala/kernels/attention_checks.h"
#include "mala/kernels/checks.h"
#include "mala/kernels/cuda/passes.h"

namespace mala::gpu {
namespace {

template <typename T>
int64_t scratch_bytes(const char* where, const AttentionInputs<T>& inputs,
                      const AttentionOptions& options, Direction direction) {
  check_inputs(where, inputs, options);
  return Plan<T>(inputs, options, direction, Launcher(nullptr).device(), {}).scratch_bytes;
}

template <typename T>
AttentionBuffers buffers_of(const char* where, const Plan<T>& plan, std::span<const float> state,
                            std::span<std::byte> scratch, const char* advice) {
  constexpr uintptr_t kAlign = 16;  // of a vector
  check(reinterpret_cast<uintptr_t>(state.data()) % kAlign == 0, where,
        "the state does not begin at a multiple of ", kAlign,
        " bytes; take it from cudaMalloc or an allocator that aligns as well");
  return {.state = std::as_bytes(state),
          .scratch = scratch,
          .scratch_bytes = plan.scratch_bytes,
          .scratch_advice = advice};
}

// Where the kernels of a forward meet that leaves no state: where its gradient would be, which only
// a backward has. The only kernel of a forward meets nobody.
template <typename T>
float* passing_state(const Plan<T>& plan) {
  return plan.has_whole_heads ? nullptr : plan.call.gradient;
}

}  // namespace

template <typename T>
int64_t attention_forward_scratch_bytes(const AttentionInputs<T>& inputs,
                                        const AttentionOptions& options) {
  return scratch_bytes("attention_forward_scratch_bytes", inputs, options, Direction::kForward);
}
template <typename T>
int64_t attention_backward_scratch_bytes(const AttentionInputs<T>& inputs,
                                         const AttentionOptions& options) {
  return scratch_bytes("attention_backward_scratch_bytes", inputs, options, Direction::kBackward);
}

template <typename T>
void attention_forward(const AttentionInputs<T>& inputs, const AttentionOptions& options,
                       HeadsView<T> out, std::span<float> state, std::span<std::byte> scratch,
                       void* stream) {
  constexpr const char* kWhere = "attention_forward";
  check_inputs(kWhere, inputs, options);
  Launcher on(stream, inputs.q);
  Plan<T> plan(inputs, options, Direction::kForward, on.device(), scratch);
  AttentionBuffers buffers =
      buffers_of<T>(kWhere, plan, state, scratch,
                    "ask gpu::attention_forward_scratch_bytes with the same device current");
  buffers.needs_state = !state.empty();
  check_forward(kWhere, inputs, out, buffers);
  plan.set_tensors(out);
  plan.call.state = state.empty() ? passing_state(plan) : state.data();
  plan.launch_tables(on);
  run_forward(on, plan);
}

template <typename T>
void attention_backward(const AttentionInputs<T>& inputs, const AttentionOptions& options,
                        HeadsView<const T> out_gradient, std::span<const float> state,
                        const AttentionGradients<T>& gradients, std::span<std::byte> scratch,
                        void* stream) {
  constexpr const char* kWhere = "attention_backward";
  check_inputs(kWhere, inputs, options);
  Launcher on(stream, inputs.q);
  Plan<T> plan(inputs, options, Direction::kBackward, on.device(), scratch);
  check_backward(
      kWhere, inputs, out_gradient, gradients,
      buffers_of<T>(kWhere, plan, state, scratch,
                    "ask gpu::attention_backward_scratch_bytes with the same device current"));
  plan.set_tensors(out_gradient, gradients);
  plan.call.state = const_cast<float*>(state.data());  // which the passes only read
  plan.launch_tables(on);
  run_backward(on, plan);
}

#define MALA_INSTANTIATE(T)                                                                     \
  template int64_t attention_forward_scratch_bytes(const AttentionInputs<T>&,                   \
                                                   const AttentionOptions&);                    \
  template int64_t attention_backward_scratch_bytes(const AttentionInputs<T>&,                  \
                                                    const AttentionOptions&);                   \
  template void attention_forward(const AttentionInputs<T>&, const AttentionOptions&,           \
                                  HeadsView<T>, std::span<float>, std::span<std::byte>, void*); \
  template void attention_backward(const AttentionInputs<T>&, const AttentionOptions&,          \
                                   HeadsView<const T>, std::span<const float>,                  \
                                   const AttentionGradients<T>&, std::span<std::byte>, void*)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala::gpu
