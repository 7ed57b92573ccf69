// The public entry: checks everything, once, and calls the kernels.
#include "mala/kernels/attention.h"

#include "mala/kernels/attention_checks.h"
#include "mala/kernels/checks.h"
#include "mala/kernels/cpu/attention.h"

namespace mala {
namespace {

template <typename T>
AttentionBuffers buffers_of(const AttentionInputs<T>& inputs, const AttentionOptions& options,
                            std::span<const Compute<T>> state, std::span<std::byte> scratch) {
  return {.state = std::as_bytes(state),
          .scratch = scratch,
          .scratch_bytes = cpu::attention_scratch_bytes(inputs, options),
          .scratch_advice = "ask attention_scratch_bytes after setting the number of threads"};
}

}  // namespace

template <typename T>
int64_t attention_scratch_bytes(const AttentionInputs<T>& inputs, const AttentionOptions& options) {
  check_inputs("attention_scratch_bytes", inputs, options);
  return cpu::attention_scratch_bytes(inputs, options);
}

template <typename T>
void attention_forward(const AttentionInputs<T>& inputs, const AttentionOptions& options,
                       HeadsView<T> out, std::span<Compute<T>> state,
                       std::span<std::byte> scratch) {
  constexpr const char* kWhere = "attention_forward";
  check_inputs(kWhere, inputs, options);
  check_forward(kWhere, inputs, out, buffers_of<T>(inputs, options, state, scratch));
  cpu::attention_forward(inputs, options, out, state, scratch);
}

template <typename T>
void attention_backward(const AttentionInputs<T>& inputs, const AttentionOptions& options,
                        HeadsView<const T> out_gradient, std::span<const Compute<T>> state,
                        const AttentionGradients<T>& gradients, std::span<std::byte> scratch) {
  constexpr const char* kWhere = "attention_backward";
  check_inputs(kWhere, inputs, options);
  check_backward(kWhere, inputs, out_gradient, gradients,
                 buffers_of<T>(inputs, options, state, scratch));
  cpu::attention_backward(inputs, options, out_gradient, state, gradients, scratch);
}

#define MALA_INSTANTIATE(T)                                                                     \
  template int64_t attention_scratch_bytes(const AttentionInputs<T>&, const AttentionOptions&); \
  template void attention_forward(const AttentionInputs<T>&, const AttentionOptions&,           \
                                  HeadsView<T>, std::span<Compute<T>>, std::span<std::byte>);   \
  template void attention_backward(const AttentionInputs<T>&, const AttentionOptions&,          \
                                   HeadsView<const T>, std::span<const Compute<T>>,             \
                                   const AttentionGradients<T>&, std::span<std::byte>)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(double);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala
