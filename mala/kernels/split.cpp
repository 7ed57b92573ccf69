// The public entries of the two halves: they check everything, once, and call the kernels.
#include "mala/kernels/split.h"

#include <array>

#include "mala/kernels/checks.h"
#include "mala/kernels/cpu/split.h"

namespace mala {
namespace {

template <typename T>
int64_t state_size(const KeysInputs<T>& inputs) {
  const int64_t sequences = sequences_of(inputs.lengths.k_offsets, inputs.k.batch);
  return attention_state_size(sequences, inputs.k.heads, inputs.k.dim, inputs.v.dim);
}

void check_scratch(const char* where, std::span<const std::byte> scratch, int64_t needed,
                   const char* to_try) {
  check_size(where, "scratch (in bytes)", static_cast<int64_t>(scratch.size()), needed, to_try);
}

template <typename T>
void check_keys_scratch(const char* where, const KeysInputs<T>& inputs,
                        const AttentionOptions& options, std::span<const std::byte> scratch) {
  check_scratch(where, scratch, cpu::keys_scratch_bytes(inputs, options),
                "ask keys_scratch_bytes after setting the number of threads");
}

template <typename T>
void check_queries_scratch(const char* where, const QueriesInputs<T>& inputs,
                           const AttentionOptions& options, const TotalState<T>& state,
                           int64_t value_dim, std::span<const std::byte> scratch) {
  check_scratch(where, scratch, cpu::queries_scratch_bytes(inputs, options, state, value_dim),
                "ask queries_scratch_bytes after setting the number of threads");
}

// The other half writes this gradient.
template <typename T>
void check_absent(const char* where, const char* name, const HeadsView<T>& gradient,
                  const char* writer) {
  check(!gradient.data, where, name, " is given, but ", writer, " writes it; leave it out here");
}

}  // namespace

template <typename T>
int64_t keys_scratch_bytes(const KeysInputs<T>& inputs, const AttentionOptions& options) {
  check_keys_inputs("keys_scratch_bytes", inputs, options);
  return cpu::keys_scratch_bytes(inputs, options);
}

template <typename T>
int64_t queries_scratch_bytes(const QueriesInputs<T>& inputs, const AttentionOptions& options,
                              const TotalState<T>& state, int64_t value_dim) {
  check_queries_inputs("queries_scratch_bytes", inputs, options, state, value_dim);
  return cpu::queries_scratch_bytes(inputs, options, state, value_dim);
}

template <typename T>
void keys_forward(const KeysInputs<T>& inputs, const AttentionOptions& options,
                  std::span<Compute<T>> state, std::span<std::byte> scratch) {
  constexpr const char* kWhere = "keys_forward";
  check_keys_inputs(kWhere, inputs, options);
  check_state_size(kWhere, "state", static_cast<int64_t>(state.size()), state_size(inputs));
  check_keys_scratch<T>(kWhere, inputs, options, scratch);
  const std::array read{Named<const T>{"k", inputs.k}, Named<const T>{"v", inputs.v}};
  check_buffers_apart<T>(kWhere, {{"state", std::as_bytes(state)}, {"scratch", scratch}}, {read});
  cpu::keys_forward(inputs, options, state, scratch);
}

template <typename T>
void queries_forward(const QueriesInputs<T>& inputs, const AttentionOptions& options,
                     const TotalState<T>& state, HeadsView<T> out, std::span<std::byte> scratch) {
  constexpr const char* kWhere = "queries_forward";
  check_queries_inputs(kWhere, inputs, options, state, out.dim);
  check_output(kWhere, "out", out, inputs.q, out.dim);
  check_queries_scratch<T>(kWhere, inputs, options, state, out.dim, scratch);
  const std::array read{Named<const T>{"q", inputs.q}, Named<const T>{"local", inputs.local},
                        Named<const T>{"gate", inputs.gate}};
  const std::array written{Named<const T>{"out", out}};
  check_all_apart<T>(kWhere, std::array{Named<T>{"out", out}}, read);
  check_buffers_apart<T>(kWhere, {{"state", std::as_bytes(state.sums)}, {"scratch", scratch}},
                         {read, written});
  cpu::queries_forward(inputs, options, state, out, scratch);
}

template <typename T>
void queries_backward(const QueriesInputs<T>& inputs, const AttentionOptions& options,
                      const TotalState<T>& state, HeadsView<const T> out_gradient,
                      const AttentionGradients<T>& gradients, std::span<Compute<T>> state_gradient,
                      std::span<std::byte> scratch) {
  constexpr const char* kWhere = "queries_backward";
  const int64_t value_dim = out_gradient.dim;
  check_queries_inputs(kWhere, inputs, options, state, value_dim);
  check_input_like(kWhere, "out_gradient", out_gradient, inputs.q, value_dim);
  check_output(kWhere, "gradient of q", gradients.q, inputs.q, inputs.q.dim);
  check_tail_gradient(kWhere, "gradient of local", gradients.local, inputs.local);
  check_tail_gradient(kWhere, "gradient of gate", gradients.gate, inputs.gate);
  check_absent(kWhere, "gradient of k", gradients.k, "keys_backward");
  check_absent(kWhere, "gradient of v", gradients.v, "keys_backward");
  check_state_size(kWhere, "state_gradient", static_cast<int64_t>(state_gradient.size()),
                   static_cast<int64_t>(state.sums.size()));
  check_queries_scratch<T>(kWhere, inputs, options, state, value_dim, scratch);
  const std::array read{Named<const T>{"q", inputs.q}, Named<const T>{"local", inputs.local},
                        Named<const T>{"gate", inputs.gate},
                        Named<const T>{"out_gradient", out_gradient}};
  const std::array outputs{Named<T>{"gradient of q", gradients.q},
                           Named<T>{"gradient of local", gradients.local},
                           Named<T>{"gradient of gate", gradients.gate}};
  const auto written = read_only(outputs);
  check_all_apart<T>(kWhere, outputs, read);
  check_buffers_apart<T>(kWhere,
                         {{"state", std::as_bytes(state.sums)},
                          {"state_gradient", std::as_bytes(state_gradient)},
                          {"scratch", scratch}},
                         {read, written});
  cpu::queries_backward(inputs, options, state, out_gradient, gradients, state_gradient, scratch);
}

template <typename T>
void keys_backward(const KeysInputs<T>& inputs, const AttentionOptions& options,
                   std::span<const Compute<T>> state_gradient,
                   const AttentionGradients<T>& gradients, std::span<std::byte> scratch) {
  constexpr const char* kWhere = "keys_backward";
  check_keys_inputs(kWhere, inputs, options);
  check_output(kWhere, "gradient of k", gradients.k, inputs.k, inputs.k.dim);
  check_output(kWhere, "gradient of v", gradients.v, inputs.v, inputs.v.dim);
  check_absent(kWhere, "gradient of q", gradients.q, "queries_backward");
  check_absent(kWhere, "gradient of local", gradients.local, "queries_backward");
  check_absent(kWhere, "gradient of gate", gradients.gate, "queries_backward");
  check_state_size(kWhere, "state_gradient", static_cast<int64_t>(state_gradient.size()),
                   state_size(inputs));
  check_keys_scratch<T>(kWhere, inputs, options, scratch);
  const std::array read{Named<const T>{"k", inputs.k}, Named<const T>{"v", inputs.v}};
  const std::array outputs{Named<T>{"gradient of k", gradients.k},
                           Named<T>{"gradient of v", gradients.v}};
  const auto written = read_only(outputs);
  check_all_apart<T>(kWhere, outputs, read);
  check_buffers_apart<T>(kWhere,
                         {{"state_gradient", std::as_bytes(state_gradient)}, {"scratch", scratch}},
                         {read, written});
  cpu::keys_backward(inputs, options, state_gradient, gradients, scratch);
}

#define MALA_INSTANTIATE(T)                                                                        \
  template int64_t keys_scratch_bytes(const KeysInputs<T>&, const AttentionOptions&);              \
  template int64_t queries_scratch_bytes(const QueriesInputs<T>&, const AttentionOptions&,         \
                                         const TotalState<T>&, int64_t);                           \
  template void keys_forward(const KeysInputs<T>&, const AttentionOptions&, std::span<Compute<T>>, \
                             std::span<std::byte>);                                                \
  template void queries_forward(const QueriesInputs<T>&, const AttentionOptions&,                  \
                                const TotalState<T>&, HeadsView<T>, std::span<std::byte>);         \
  template void queries_backward(                                                                  \
      const QueriesInputs<T>&, const AttentionOptions&, const TotalState<T>&, HeadsView<const T>,  \
      const AttentionGradients<T>&, std::span<Compute<T>>, std::span<std::byte>);                  \
  template void keys_backward(const KeysInputs<T>&, const AttentionOptions&,                       \
                              std::span<const Compute<T>>, const AttentionGradients<T>&,           \
                              std::span<std::byte>)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(double);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala
