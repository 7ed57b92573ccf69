// The C interface of causal.h.
#include "mala/kernels/causal_c.h"

#include "mala/kernels/c_interface.h"
#include "mala/kernels/causal.h"

namespace mala::c {
namespace {

constexpr const char* kStateBytes = "mala_causal_state_bytes";
constexpr const char* kForwardScratch = "mala_causal_forward_scratch_bytes";
constexpr const char* kBackwardScratch = "mala_causal_backward_scratch_bytes";

CausalState state_before(const mala_causal_state* state) {
  if (!state) return {};
  return {.sums = elements<const double>(state->sums, "before.sums", kStateBytes),
          .counts = elements<const int64_t>(state->counts, "before.counts", kStateBytes)};
}

CausalStateAfter state_after(const mala_causal_state* state, const char* sums_name,
                             const char* counts_name) {
  if (!state) return {};
  return {.sums = elements<double>(state->sums, sums_name, kStateBytes),
          .counts = elements<int64_t>(state->counts, counts_name, kStateBytes)};
}

// Calls run(inputs as views, with the state before).
template <typename Run>
void with_causal_inputs(const mala_attention_inputs* given, const mala_causal_state* before,
                        const Run& run) {
  with_inputs(given, [&]<typename T>(const AttentionInputs<T>& tokens) {
    run(CausalInputs<T>{tokens, state_before(before)});
  });
}

}  // namespace
}  // namespace mala::c

using namespace mala;

mala_status mala_causal_state_bytes(const mala_attention_inputs* inputs, int64_t* sums_bytes,
                                    int64_t* counts_bytes) {
  return c::guarded(c::kStateBytes, [&] {
    c::need_bytes(sums_bytes, "sums_bytes");
    c::need_bytes(counts_bytes, "counts_bytes");
    c::with_inputs(inputs, [&]<typename T>(const AttentionInputs<T>& in) {
      causal_forward_scratch_bytes(CausalInputs<T>{in, {}}, {});  // for its checks of all sizes
      const int64_t sequences = c::count_sequences(in.lengths.q_offsets, in.q.batch);
      *sums_bytes = attention_state_size(sequences, in.k.heads, in.q.dim, in.v.dim) *
                    static_cast<int64_t>(sizeof(double));
      *counts_bytes = sequences * static_cast<int64_t>(sizeof(int64_t));
    });
  });
}

mala_status mala_causal_forward_scratch_bytes(const mala_attention_inputs* inputs,
                                              const mala_options* options,
                                              const mala_causal_state* before, int64_t* bytes) {
  return c::guarded(c::kForwardScratch, [&] {
    c::need_bytes(bytes);
    c::with_causal_inputs(inputs, before, [&](const auto& in) {
      *bytes = causal_forward_scratch_bytes(in, c::options(options));
    });
  });
}

mala_status mala_causal_backward_scratch_bytes(const mala_attention_inputs* inputs,
                                               const mala_options* options,
                                               const mala_causal_state* before, int64_t* bytes) {
  return c::guarded(c::kBackwardScratch, [&] {
    c::need_bytes(bytes);
    c::with_causal_inputs(inputs, before, [&](const auto& in) {
      *bytes = causal_backward_scratch_bytes(in, c::options(options));
    });
  });
}

mala_status mala_causal_forward(const mala_attention_inputs* inputs, const mala_options* options,
                                const mala_causal_state* before, const mala_tensor* out,
                                const mala_causal_state* after, mala_buffer scratch) {
  return c::guarded("mala_causal_forward", [&] {
    c::with_causal_inputs(inputs, before, [&]<typename T>(const CausalInputs<T>& in) {
      causal_forward<T>(in, c::options(options), c::view<T>(out, "out"),
                        c::state_after(after, "after.sums", "after.counts"),
                        c::elements<std::byte>(scratch, "scratch", c::kForwardScratch));
    });
  });
}

mala_status mala_causal_backward(const mala_attention_inputs* inputs, const mala_options* options,
                                 const mala_causal_state* before,
                                 const mala_causal_output_gradients* from,
                                 const mala_causal_input_gradients* to, mala_buffer scratch) {
  return c::guarded("mala_causal_backward", [&] {
    const mala_causal_output_gradients outputs = c::known(from, "from");
    const mala_causal_input_gradients gradients = c::known(to, "to");
    c::with_causal_inputs(inputs, before, [&]<typename T>(const CausalInputs<T>& in) {
      causal_backward<T>(
          in, c::options(options),
          {.out = c::view<const T>(outputs.out, "from.out"),
           .after = c::elements<const double>(outputs.after, "from.after", c::kStateBytes)},
          {.tokens = c::gradient_views<T>(gradients),
           .before = c::elements<double>(gradients.before, "to.before", c::kStateBytes)},
          c::elements<std::byte>(scratch, "scratch", c::kBackwardScratch));
    });
  });
}

mala_status mala_causal_step(const mala_attention_inputs* inputs, const mala_options* options,
                             const mala_tensor* out, const mala_causal_state* state) {
  return c::guarded("mala_causal_step", [&] {
    c::need(state != nullptr, "state is null; pass the address of a state that is filled in");
    c::with_inputs(inputs, [&]<typename T>(const AttentionInputs<T>& in) {
      causal_step<T>(in, c::options(options), c::view<T>(out, "out"),
                     c::state_after(state, "state.sums", "state.counts"));
    });
  });
}
