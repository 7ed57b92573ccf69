// The public entry of the causal form: checks everything, once, and calls the kernels.
#include "mala/kernels/causal.h"

#include "mala/kernels/causal_checks.h"
#include "mala/kernels/cpu/causal.h"

namespace mala {
namespace {

template <typename T>
void check_causal(const char* where, const CausalInputs<T>& inputs,
                  const AttentionOptions& options) {
  check_causal_inputs(where, inputs, options);
  check_text_so_far(where, inputs.tokens, options, inputs.before.sums, inputs.before.counts);
}

}  // namespace

template <typename T>
int64_t causal_forward_scratch_bytes(const CausalInputs<T>& inputs,
                                     const AttentionOptions& options) {
  check_causal("causal_forward_scratch_bytes", inputs, options);
  return cpu::causal_forward_scratch_bytes(inputs, options);
}

template <typename T>
int64_t causal_backward_scratch_bytes(const CausalInputs<T>& inputs,
                                      const AttentionOptions& options) {
  check_causal("causal_backward_scratch_bytes", inputs, options);
  return cpu::causal_backward_scratch_bytes(inputs, options);
}

template <typename T>
void causal_forward(const CausalInputs<T>& inputs, const AttentionOptions& options,
                    HeadsView<T> out, const CausalStateAfter& after, std::span<std::byte> scratch) {
  constexpr const char* kWhere = "causal_forward";
  check_causal(kWhere, inputs, options);
  check_causal_forward(kWhere, inputs, out, after,
                       {scratch, cpu::causal_forward_scratch_bytes(inputs, options),
                        "ask causal_forward_scratch_bytes after setting the number of threads"});
  cpu::causal_forward(inputs, options, out, after, scratch);
}

template <typename T>
void causal_backward(const CausalInputs<T>& inputs, const AttentionOptions& options,
                     const CausalOutputGradients<T>& from, const CausalInputGradients<T>& to,
                     std::span<std::byte> scratch) {
  constexpr const char* kWhere = "causal_backward";
  check_causal(kWhere, inputs, options);
  check_causal_backward(kWhere, inputs, from, to,
                        {scratch, cpu::causal_backward_scratch_bytes(inputs, options),
                         "ask causal_backward_scratch_bytes after setting the number of threads"});
  cpu::causal_backward(inputs, options, from, to, scratch);
}

template <typename T>
void causal_step(const AttentionInputs<T>& token, const AttentionOptions& options, HeadsView<T> out,
                 const CausalStateAfter& state) {
  constexpr const char* kWhere = "causal_step";
  check_causal_step(kWhere, token, options, out, state);
  check_text_so_far(kWhere, token, options, state.sums, state.counts);
  cpu::causal_step(token, options, out, state);
}

#define MALA_INSTANTIATE(T)                                                                        \
  template int64_t causal_forward_scratch_bytes(const CausalInputs<T>&, const AttentionOptions&);  \
  template int64_t causal_backward_scratch_bytes(const CausalInputs<T>&, const AttentionOptions&); \
  template void causal_forward(const CausalInputs<T>&, const AttentionOptions&, HeadsView<T>,      \
                               const CausalStateAfter&, std::span<std::byte>);                     \
  template void causal_backward(const CausalInputs<T>&, const AttentionOptions&,                   \
                                const CausalOutputGradients<T>&, const CausalInputGradients<T>&,   \
                                std::span<std::byte>);                                             \
  template void causal_step(const AttentionInputs<T>&, const AttentionOptions&, HeadsView<T>,      \
                            const CausalStateAfter&)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(double);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala
