// Tensors of a call of the bidirectional operator against each other and against its buffers.
#include "mala/kernels/attention_checks.h"

#include <array>
#include <initializer_list>

#include "mala/kernels/checks.h"

namespace mala {
namespace {

// State and scratch are large enough and share memory with nothing else.
template <typename T>
void check_buffers(const char* where, const AttentionInputs<T>& inputs,
                   const AttentionBuffers& buffers,
                   std::initializer_list<Tensors<const T>> tensors) {
  const int64_t sequences = sequences_of(inputs.lengths.q_offsets, inputs.q.batch);
  if (buffers.needs_state) {
    check_size(where, "state (in elements)",
               static_cast<int64_t>(buffers.state.size() / sizeof(Compute<T>)),
               attention_state_size(sequences, inputs.k.heads, inputs.q.dim, inputs.v.dim),
               "ask attention_state_size for its size");
  }
  check_size(where, "scratch (in bytes)", static_cast<int64_t>(buffers.scratch.size()),
             buffers.scratch_bytes, buffers.scratch_advice);
  check_buffers_apart<T>(where, {{"state", buffers.state}, {"scratch", buffers.scratch}}, tensors);
}

}  // namespace

template <typename T>
void check_forward(const char* where, const AttentionInputs<T>& inputs, const HeadsView<T>& out,
                   const AttentionBuffers& buffers) {
  check_output(where, "out", out, inputs.q, inputs.v.dim);
  const std::array read{Named<const T>{"q", inputs.q}, Named<const T>{"k", inputs.k},
                        Named<const T>{"v", inputs.v}, Named<const T>{"local", inputs.local},
                        Named<const T>{"gate", inputs.gate}};
  const std::array written{Named<const T>{"out", out}};
  check_all_apart<T>(where, std::array{Named<T>{"out", out}}, read);
  check_buffers<T>(where, inputs, buffers, {read, written});
}

template <typename T>
void check_backward(const char* where, const AttentionInputs<T>& inputs,
                    const HeadsView<const T>& out_gradient, const AttentionGradients<T>& gradients,
                    const AttentionBuffers& buffers) {
  check_input_like(where, "out_gradient", out_gradient, inputs.q, inputs.v.dim);
  check_output(where, "gradient of q", gradients.q, inputs.q, inputs.q.dim);
  check_output(where, "gradient of k", gradients.k, inputs.k, inputs.k.dim);
  check_output(where, "gradient of v", gradients.v, inputs.v, inputs.v.dim);
  check_tail_gradient(where, "gradient of local", gradients.local, inputs.local);
  check_tail_gradient(where, "gradient of gate", gradients.gate, inputs.gate);
  const std::array read{
      Named<const T>{"q", inputs.q},       Named<const T>{"k", inputs.k},
      Named<const T>{"v", inputs.v},       Named<const T>{"local", inputs.local},
      Named<const T>{"gate", inputs.gate}, Named<const T>{"out_gradient", out_gradient}};
  const std::array outputs{
      Named<T>{"gradient of q", gradients.q}, Named<T>{"gradient of k", gradients.k},
      Named<T>{"gradient of v", gradients.v}, Named<T>{"gradient of local", gradients.local},
      Named<T>{"gradient of gate", gradients.gate}};
  check_all_apart<T>(where, outputs, read);
  const auto written = read_only(outputs);
  check_buffers<T>(where, inputs, buffers, {read, written});
}

#define MALA_INSTANTIATE(T)                                                                       \
  template void check_forward(const char*, const AttentionInputs<T>&, const HeadsView<T>&,        \
                              const AttentionBuffers&);                                           \
  template void check_backward(const char*, const AttentionInputs<T>&, const HeadsView<const T>&, \
                               const AttentionGradients<T>&, const AttentionBuffers&)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(double);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala
