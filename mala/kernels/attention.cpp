// The public entry: checks everything, once, and calls the kernels.
#include "mala/kernels/attention.h"

#include <array>
#include <initializer_list>

#include "mala/kernels/checks.h"
#include "mala/kernels/cpu/attention.h"

namespace mala {
namespace {

struct Buffers {
  std::span<const std::byte> state, scratch;
};

// State and scratch are large enough and share memory with nothing else.
template <typename T>
void check_buffers(const char* where, const AttentionInputs<T>& inputs,
                   const AttentionOptions& options, const Buffers& buffers,
                   std::initializer_list<Tensors<const T>> tensors) {
  const int64_t sequences = sequences_of(inputs.lengths.q_offsets, inputs.q.batch);
  check_size(where, "state (in elements)",
             static_cast<int64_t>(buffers.state.size() / sizeof(Compute<T>)),
             attention_state_size(sequences, inputs.k.heads, inputs.q.dim, inputs.v.dim),
             "ask attention_state_size for its size");
  check_size(where, "scratch (in bytes)", static_cast<int64_t>(buffers.scratch.size()),
             cpu::attention_scratch_bytes(inputs, options),
             "ask attention_scratch_bytes after setting the number of threads");
  check_buffers_apart<T>(where, {{"state", buffers.state}, {"scratch", buffers.scratch}}, tensors);
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
  check_output(kWhere, "out", out, inputs.q, inputs.v.dim);
  const std::array read{Named<const T>{"q", inputs.q}, Named<const T>{"k", inputs.k},
                        Named<const T>{"v", inputs.v}, Named<const T>{"local", inputs.local},
                        Named<const T>{"gate", inputs.gate}};
  const std::array written{Named<const T>{"out", out}};
  check_all_apart<T>(kWhere, std::array{Named<T>{"out", out}}, read);
  check_buffers<T>(kWhere, inputs, options, {std::as_bytes(state), scratch}, {read, written});
  cpu::attention_forward(inputs, options, out, state, scratch);
}

template <typename T>
void attention_backward(const AttentionInputs<T>& inputs, const AttentionOptions& options,
                        HeadsView<const T> out_gradient, std::span<const Compute<T>> state,
                        const AttentionGradients<T>& gradients, std::span<std::byte> scratch) {
  constexpr const char* kWhere = "attention_backward";
  check_inputs(kWhere, inputs, options);
  check_input_like(kWhere, "out_gradient", out_gradient, inputs.q, inputs.v.dim);
  check_output(kWhere, "gradient of q", gradients.q, inputs.q, inputs.q.dim);
  check_output(kWhere, "gradient of k", gradients.k, inputs.k, inputs.k.dim);
  check_output(kWhere, "gradient of v", gradients.v, inputs.v, inputs.v.dim);
  check_tail_gradient(kWhere, "gradient of local", gradients.local, inputs.local);
  check_tail_gradient(kWhere, "gradient of gate", gradients.gate, inputs.gate);
  const std::array read{
      Named<const T>{"q", inputs.q},       Named<const T>{"k", inputs.k},
      Named<const T>{"v", inputs.v},       Named<const T>{"local", inputs.local},
      Named<const T>{"gate", inputs.gate}, Named<const T>{"out_gradient", out_gradient}};
  const std::array outputs{
      Named<T>{"gradient of q", gradients.q}, Named<T>{"gradient of k", gradients.k},
      Named<T>{"gradient of v", gradients.v}, Named<T>{"gradient of local", gradients.local},
      Named<T>{"gradient of gate", gradients.gate}};
  check_all_apart<T>(kWhere, outputs, read);
  const auto written = read_only(outputs);
  check_buffers<T>(kWhere, inputs, options, {std::as_bytes(state), scratch}, {read, written});
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
