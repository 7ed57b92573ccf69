// The C interface of attention.h.
#include "mala/kernels/attention_c.h"

#include "mala/kernels/c_interface.h"

namespace mala::c {
namespace {

constexpr const char* kScratchBytes = "mala_attention_scratch_bytes";
constexpr const char* kStateBytes = "mala_attention_state_bytes";

template <typename T>
int64_t state_bytes(const AttentionInputs<T>& in) {
  attention_scratch_bytes(in, {});  // for its checks of all sizes
  const int64_t sequences = count_sequences(in.lengths.q_offsets, in.q.batch);
  return attention_state_size(sequences, in.k.heads, in.q.dim, in.v.dim) *
         static_cast<int64_t>(sizeof(Compute<T>));
}

}  // namespace
}  // namespace mala::c

using namespace mala;

mala_status mala_attention_state_bytes(const mala_attention_inputs* inputs, int64_t* bytes) {
  return c::guarded(c::kStateBytes, [&] {
    c::need_bytes(bytes);
    c::with_inputs(inputs, [&](const auto& in) { *bytes = c::state_bytes(in); });
  });
}

mala_status mala_attention_scratch_bytes(const mala_attention_inputs* inputs,
                                         const mala_options* options, int64_t* bytes) {
  return c::guarded(c::kScratchBytes, [&] {
    c::need_bytes(bytes);
    c::with_inputs(
        inputs, [&](const auto& in) { *bytes = attention_scratch_bytes(in, c::options(options)); });
  });
}

mala_status mala_attention_forward(const mala_attention_inputs* inputs, const mala_options* options,
                                   const mala_tensor* out, mala_buffer state, mala_buffer scratch) {
  return c::guarded("mala_attention_forward", [&] {
    c::with_inputs(inputs, [&]<typename T>(const AttentionInputs<T>& in) {
      attention_forward<T>(in, c::options(options), c::view<T>(out, "out"),
                           c::elements<Compute<T>>(state, "state", c::kStateBytes),
                           c::elements<std::byte>(scratch, "scratch", c::kScratchBytes));
    });
  });
}

mala_status mala_attention_backward(const mala_attention_inputs* inputs,
                                    const mala_options* options, const mala_tensor* out_gradient,
                                    mala_buffer state, const mala_attention_gradients* gradients,
                                    mala_buffer scratch) {
  return c::guarded("mala_attention_backward", [&] {
    c::with_inputs(inputs, [&]<typename T>(const AttentionInputs<T>& in) {
      attention_backward<T>(in, c::options(options), c::view<const T>(out_gradient, "out_gradient"),
                            c::elements<const Compute<T>>(state, "state", c::kStateBytes),
                            c::gradient_views<T>(c::known(gradients, "gradients")),
                            c::elements<std::byte>(scratch, "scratch", c::kScratchBytes));
    });
  });
}
