// The halves of a call on a GPU, in a build without CUDA: a refusal.
#include "mala/core/error.h"
#include "mala/kernels/cuda/devices.h"
#include "mala/kernels/cuda/split.h"

namespace mala::gpu {
namespace {

[[noreturn]] void refuse(const char* where) {
  throw Error(str("[", where, "] cannot run on a GPU: ", why_no_device()));
}

}  // namespace

template <typename T>
int64_t keys_scratch_bytes(const KeysInputs<T>&, const AttentionOptions&) {
  refuse("keys_scratch_bytes");
}

template <typename T>
int64_t queries_scratch_bytes(const QueriesInputs<T>&, const AttentionOptions&,
                              const TotalState<T>&, int64_t) {
  refuse("queries_scratch_bytes");
}

template <typename T>
void keys_forward(const KeysInputs<T>&, const AttentionOptions&, std::span<float>,
                  std::span<std::byte>, void*) {
  refuse("keys_forward");
}

template <typename T>
void queries_forward(const QueriesInputs<T>&, const AttentionOptions&, const TotalState<T>&,
                     HeadsView<T>, std::span<std::byte>, void*) {
  refuse("queries_forward");
}

template <typename T>
void queries_backward(const QueriesInputs<T>&, const AttentionOptions&, const TotalState<T>&,
                      HeadsView<const T>, const AttentionGradients<T>&, std::span<float>,
                      std::span<std::byte>, void*) {
  refuse("queries_backward");
}

template <typename T>
void keys_backward(const KeysInputs<T>&, const AttentionOptions&, std::span<const float>,
                   const AttentionGradients<T>&, std::span<std::byte>, void*) {
  refuse("keys_backward");
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
