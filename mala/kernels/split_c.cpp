// The C interface of split.h.
#include "mala/kernels/split_c.h"

#include "mala/kernels/c_interface.h"
#include "mala/kernels/split.h"

namespace mala::c {
namespace {

constexpr const char* kStateBytes = "mala_keys_state_bytes";
constexpr const char* kKeysScratch = "mala_keys_scratch_bytes";
constexpr const char* kQueriesScratch = "mala_queries_scratch_bytes";

// Calls run(keys as views).
template <typename Run>
void with_keys(const mala_keys_inputs* given, const Run& run) {
  const mala_keys_inputs inputs = known(given, "inputs");
  with_type(inputs.dtype, [&]<typename T>(T*) {
    run(KeysInputs<T>{.k = view<const T>(inputs.k, "k"),
                      .v = view<const T>(inputs.v, "v"),
                      .lengths = {.key_counts = integers(inputs.key_counts, "key_counts"),
                                  .k_offsets = integers(inputs.k_offsets, "k_offsets"),
                                  .k_widths = integers(inputs.k_widths, "k_widths")}});
  });
}

template <typename T>
TotalState<T> total(const mala_total_state& given) {
  return {.sums = elements<const Compute<T>>(given.sums, "state.sums", kStateBytes),
          .key_counts = integers(given.key_counts, "state.key_counts"),
          .heads = given.heads};
}

// Calls run(queries as views, the state of all keys).
template <typename Run>
void with_queries(const mala_queries_inputs* given, const mala_total_state* given_state,
                  const Run& run) {
  const mala_queries_inputs inputs = known(given, "inputs");
  const mala_total_state state = known(given_state, "state");
  with_type(inputs.dtype, [&]<typename T>(T*) {
    run(QueriesInputs<T>{.q = view<const T>(inputs.q, "q"),
                         .local = optional_view<const T>(inputs.local, "local"),
                         .gate = optional_view<const T>(inputs.gate, "gate"),
                         .lengths = {.q_offsets = integers(inputs.q_offsets, "q_offsets"),
                                     .q_widths = integers(inputs.q_widths, "q_widths")}},
        total<T>(state));
  });
}

}  // namespace
}  // namespace mala::c

using namespace mala;

mala_status mala_keys_state_bytes(const mala_keys_inputs* inputs, int64_t* bytes) {
  return c::guarded(c::kStateBytes, [&] {
    c::need_bytes(bytes);
    c::with_keys(inputs, [&]<typename T>(const KeysInputs<T>& in) {
      keys_scratch_bytes(in, {});  // for its checks of all sizes
      const int64_t sequences = c::count_sequences(in.lengths.k_offsets, in.k.batch);
      *bytes = attention_state_size(sequences, in.k.heads, in.k.dim, in.v.dim) *
               static_cast<int64_t>(sizeof(Compute<T>));
    });
  });
}

mala_status mala_keys_scratch_bytes(const mala_keys_inputs* inputs, const mala_options* options,
                                    int64_t* bytes) {
  return c::guarded(c::kKeysScratch, [&] {
    c::need_bytes(bytes);
    c::with_keys(inputs,
                 [&](const auto& in) { *bytes = keys_scratch_bytes(in, c::options(options)); });
  });
}

mala_status mala_queries_scratch_bytes(const mala_queries_inputs* inputs,
                                       const mala_options* options, const mala_total_state* state,
                                       int64_t value_dim, int64_t* bytes) {
  return c::guarded(c::kQueriesScratch, [&] {
    c::need_bytes(bytes);
    c::with_queries(inputs, state, [&](const auto& in, const auto& all) {
      *bytes = queries_scratch_bytes(in, c::options(options), all, value_dim);
    });
  });
}

mala_status mala_keys_forward(const mala_keys_inputs* inputs, const mala_options* options,
                              mala_buffer state, mala_buffer scratch) {
  return c::guarded("mala_keys_forward", [&] {
    c::with_keys(inputs, [&]<typename T>(const KeysInputs<T>& in) {
      keys_forward<T>(in, c::options(options),
                      c::elements<Compute<T>>(state, "state", c::kStateBytes),
                      c::elements<std::byte>(scratch, "scratch", c::kKeysScratch));
    });
  });
}

mala_status mala_queries_forward(const mala_queries_inputs* inputs, const mala_options* options,
                                 const mala_total_state* state, const mala_tensor* out,
                                 mala_buffer scratch) {
  return c::guarded("mala_queries_forward", [&] {
    c::with_queries(
        inputs, state, [&]<typename T>(const QueriesInputs<T>& in, const TotalState<T>& all) {
          queries_forward<T>(in, c::options(options), all, c::view<T>(out, "out"),
                             c::elements<std::byte>(scratch, "scratch", c::kQueriesScratch));
        });
  });
}

mala_status mala_queries_backward(const mala_queries_inputs* inputs, const mala_options* options,
                                  const mala_total_state* state, const mala_tensor* out_gradient,
                                  const mala_queries_gradients* gradients, mala_buffer scratch) {
  return c::guarded("mala_queries_backward", [&] {
    const mala_queries_gradients to = c::known(gradients, "gradients");
    c::with_queries(
        inputs, state, [&]<typename T>(const QueriesInputs<T>& in, const TotalState<T>& all) {
          queries_backward<T>(in, c::options(options), all,
                              c::view<const T>(out_gradient, "out_gradient"),
                              {.q = c::view<T>(to.q, "gradients.q"),
                               .local = c::optional_view<T>(to.local, "gradients.local"),
                               .gate = c::optional_view<T>(to.gate, "gradients.gate")},
                              c::elements<Compute<T>>(to.state, "gradients.state", c::kStateBytes),
                              c::elements<std::byte>(scratch, "scratch", c::kQueriesScratch));
        });
  });
}

mala_status mala_keys_backward(const mala_keys_inputs* inputs, const mala_options* options,
                               mala_buffer state_gradient, const mala_keys_gradients* gradients,
                               mala_buffer scratch) {
  return c::guarded("mala_keys_backward", [&] {
    const mala_keys_gradients to = c::known(gradients, "gradients");
    c::with_keys(inputs, [&]<typename T>(const KeysInputs<T>& in) {
      keys_backward<T>(
          in, c::options(options),
          c::elements<const Compute<T>>(state_gradient, "state_gradient", c::kStateBytes),
          {.k = c::view<T>(to.k, "gradients.k"), .v = c::view<T>(to.v, "gradients.v")},
          c::elements<std::byte>(scratch, "scratch", c::kKeysScratch));
    });
  });
}
