// The public entry: checks everything, once, and calls the kernels.
#include "mala/kernels/attention.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "mala/kernels/checks.h"
#include "mala/kernels/cpu/attention.h"

namespace mala {
namespace {

template <typename T>
struct Named {
  const char* name;
  HeadsView<T> view;
};

template <typename T>
using Tensors = std::span<const Named<T>>;

// The outputs share memory neither with an input nor with each other.
template <typename T>
void check_all_apart(const char* where, Tensors<T> outputs, Tensors<const T> inputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].view.data) continue;
    for (const Named<const T>& input : inputs) {
      check_apart(where, outputs[i].name, outputs[i].view, input.name, input.view);
    }
    for (size_t j = 0; j < i; ++j) {
      check_apart<T>(where, outputs[i].name, outputs[i].view, outputs[j].name, outputs[j].view);
    }
  }
}

struct Buffers {
  std::span<const std::byte> state, scratch;
};

// State and scratch are large enough and share memory with no tensor.
template <typename T>
void check_buffers(const char* where, const AttentionInputs<T>& inputs,
                   const AttentionOptions& options, const Buffers& buffers,
                   std::initializer_list<Tensors<const T>> tensors) {
  const int64_t packed = static_cast<int64_t>(inputs.lengths.q_offsets.size()) - 1;
  check_size(where, "state (in elements)",
             static_cast<int64_t>(buffers.state.size() / sizeof(Compute<T>)),
             attention_state_size(packed > 0 ? packed : inputs.q.batch, inputs.k.heads,
                                  inputs.q.dim, inputs.v.dim),
             "ask attention_state_size for its size");
  check_size(where, "scratch (in bytes)", static_cast<int64_t>(buffers.scratch.size()),
             cpu::attention_scratch_bytes(inputs, options),
             "ask attention_scratch_bytes after setting the number of threads");
  for (const Tensors<const T>& some : tensors) {
    for (const auto& [name, view] : some) {
      check_buffer_apart(where, "state", buffers.state, name, view);
      check_buffer_apart(where, "scratch", buffers.scratch, name, view);
    }
  }
}

// A gradient is given exactly where its input is.
template <typename T>
void check_tail_gradient(const char* where, const char* name, const HeadsView<T>& gradient,
                         const HeadsView<const T>& input) {
  check((gradient.data != nullptr) == (input.data != nullptr), where, name, " is ",
        gradient.data ? "given" : "missing", " but its input is ", input.data ? "given" : "missing",
        "; pass both or neither");
  if (input.data) check_output(where, name, gradient, input, input.dim);
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
  std::array<Named<const T>, outputs.size()> written;
  std::transform(outputs.begin(), outputs.end(), written.begin(), [](const Named<T>& x) {
    return Named<const T>{x.name, x.view};
  });
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
