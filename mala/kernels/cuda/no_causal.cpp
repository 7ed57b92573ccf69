// The causal form on a GPU, in a build without CUDA: a refusal.
#include "mala/core/error.h"
#include "mala/kernels/cuda/causal.h"
#include "mala/kernels/cuda/devices.h"

namespace mala::gpu {
namespace {

[[noreturn]] void refuse(const char* where) {
  throw Error(str("[", where, "] cannot run on a GPU: ", why_no_device()));
}

}  // namespace

template <typename T>
int64_t causal_forward_scratch_bytes(const CausalInputs<T>&, const AttentionOptions&) {
  refuse("causal_forward_scratch_bytes");
}

template <typename T>
int64_t causal_backward_scratch_bytes(const CausalInputs<T>&, const AttentionOptions&) {
  refuse("causal_backward_scratch_bytes");
}

template <typename T>
void causal_forward(const CausalInputs<T>&, const AttentionOptions&, HeadsView<T>,
                    const CausalStateAfter&, std::span<std::byte>, void*) {
  refuse("causal_forward");
}

template <typename T>
void causal_backward(const CausalInputs<T>&, const AttentionOptions&,
                     const CausalOutputGradients<T>&, const CausalInputGradients<T>&,
                     std::span<std::byte>, void*) {
  refuse("causal_backward");
}

template <typename T>
void causal_step(const AttentionInputs<T>&, const AttentionOptions&, HeadsView<T>,
                 const CausalStateAfter&, void*) {
  refuse("causal_step");
}

#define MALA_INSTANTIATE(T)                                                                        \
  template int64_t causal_forward_scratch_bytes(const CausalInputs<T>&, const AttentionOptions&);  \
  template int64_t causal_backward_scratch_bytes(const CausalInputs<T>&, const AttentionOptions&); \
  template void causal_forward(const CausalInputs<T>&, const AttentionOptions&, HeadsView<T>,      \
                               const CausalStateAfter&, std::span<std::byte>, void*);              \
  template void causal_backward(const CausalInputs<T>&, const AttentionOptions&,                   \
                                const CausalOutputGradients<T>&, const CausalInputGradients<T>&,   \
                                std::span<std::byte>, void*);                                      \
  template void causal_step(const AttentionInputs<T>&, const AttentionOptions&, HeadsView<T>,      \
                            const CausalStateAfter&, void*)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala::gpu
