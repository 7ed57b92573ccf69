// The public entry: checks everything, once, and calls the kernels.
#include "mala/kernels/attention.h"

#include <array>

#include "mala/kernels/checks.h"
#include "mala/kernels/cpu/attention.h"

namespace mala {
namespace {

template <typename T>
struct Named {
  const char* name;
  HeadsView<T> view;
};

// The outputs share memory neither with an input nor with each other.
template <typename T>
void check_all_apart(const char* where, std::span<const Named<T>> outputs,
                     std::span<const Named<const T>> inputs) {
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

template <typename T>
void check_buffers(const char* where, const AttentionInputs<T>& inputs,
                   const AttentionOptions& options, size_t state_size, size_t scratch_bytes) {
  const auto& [q, k, v, local, gate, lengths] = inputs;
  const int64_t packed = static_cast<int64_t>(lengths.q_offsets.size()) - 1;
  check_size(where, "state (in elements)", static_cast<int64_t>(state_size),
             attention_state_size(packed > 0 ? packed : q.batch, k.heads, q.dim, v.dim),
             "ask attention_state_size for its size");
  check_size(where, "scratch (in bytes)", static_cast<int64_t>(scratch_bytes),
             cpu::attention_scratch_bytes(inputs, options),
             "ask attention_scratch_bytes after setting the number of threads");
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
                       HeadsView<T> out, std::span<T> state, std::span<std::byte> scratch) {
  constexpr const char* kWhere = "attention_forward";
  const auto& [q, k, v, local, gate, lengths] = inputs;
  check_inputs(kWhere, inputs, options);
  check_output(kWhere, "out", out, q, v.dim);
  check_all_apart<T>(
      kWhere, std::array{Named<T>{"out", out}},
      std::array{Named<const T>{"q", q}, Named<const T>{"k", k}, Named<const T>{"v", v},
                 Named<const T>{"local", local}, Named<const T>{"gate", gate}});
  check_buffers(kWhere, inputs, options, state.size(), scratch.size());
  cpu::attention_forward(inputs, options, out, state, scratch);
}

template <typename T>
void attention_backward(const AttentionInputs<T>& inputs, const AttentionOptions& options,
                        HeadsView<const T> out_gradient, std::span<const T> state,
                        const AttentionGradients<T>& gradients, std::span<std::byte> scratch) {
  constexpr const char* kWhere = "attention_backward";
  const auto& [q, k, v, local, gate, lengths] = inputs;
  check_inputs(kWhere, inputs, options);
  check_input_like(kWhere, "out_gradient", out_gradient, q, v.dim);
  check_output(kWhere, "gradient of q", gradients.q, q, q.dim);
  check_output(kWhere, "gradient of k", gradients.k, k, k.dim);
  check_output(kWhere, "gradient of v", gradients.v, v, v.dim);
  check_tail_gradient(kWhere, "gradient of local", gradients.local, local);
  check_tail_gradient(kWhere, "gradient of gate", gradients.gate, gate);
  check_all_apart<T>(
      kWhere,
      std::array{Named<T>{"gradient of q", gradients.q}, Named<T>{"gradient of k", gradients.k},
                 Named<T>{"gradient of v", gradients.v},
                 Named<T>{"gradient of local", gradients.local},
                 Named<T>{"gradient of gate", gradients.gate}},
      std::array{Named<const T>{"q", q}, Named<const T>{"k", k}, Named<const T>{"v", v},
                 Named<const T>{"local", local}, Named<const T>{"gate", gate},
                 Named<const T>{"out_gradient", out_gradient}});
  check_buffers(kWhere, inputs, options, state.size(), scratch.size());
  cpu::attention_backward(inputs, options, out_gradient, state, gradients, scratch);
}

#define MALA_INSTANTIATE(T)                                                                     \
  template int64_t attention_scratch_bytes(const AttentionInputs<T>&, const AttentionOptions&); \
  template void attention_forward(const AttentionInputs<T>&, const AttentionOptions&,           \
                                  HeadsView<T>, std::span<T>, std::span<std::byte>);            \
  template void attention_backward(const AttentionInputs<T>&, const AttentionOptions&,          \
                                   HeadsView<const T>, std::span<const T>,                      \
                                   const AttentionGradients<T>&, std::span<std::byte>)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(double);
#undef MALA_INSTANTIATE

}  // namespace mala
