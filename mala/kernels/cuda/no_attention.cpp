// The operator on a GPU, in a build without CUDA: a refusal.
#include "mala/core/error.h"
#include "mala/kernels/cuda/attention.h"
#include "mala/kernels/cuda/devices.h"

namespace mala::gpu {
namespace {

[[noreturn]] void refuse(const char* where) {
  throw Error(str("[", where, "] cannot run on a GPU: ", why_no_device()));
}

}  // namespace

template <typename T>
int64_t attention_forward_scratch_bytes(const AttentionInputs<T>&, const AttentionOptions&) {
  refuse("attention_forward_scratch_bytes");
}

template <typename T>
int64_t attention_backward_scratch_bytes(const AttentionInputs<T>&, const AttentionOptions&) {
  refuse("attention_backward_scratch_bytes");
}

template <typename T>
void attention_forward(const AttentionInputs<T>&, const AttentionOptions&, HeadsView<T>,
                       std::span<float>, std::span<std::byte>, void*) {
  refuse("attention_forward");
}

template <typename T>
void attention_backward(const AttentionInputs<T>&, const AttentionOptions&, HeadsView<const T>,
                        std::span<const float>, const AttentionGradients<T>&, std::span<std::byte>,
                        void*) {
  refuse("attention_backward");
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
