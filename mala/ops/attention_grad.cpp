// The gradient of mala::attention for autograd.
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <array>
#include <string>
#include <vector>

#include "mala/ops/attention_call.h"

namespace mala::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

Tensor or_undefined(const std::optional<Tensor>& x) { return x ? *x : Tensor(); }

std::optional<Tensor> if_defined(const Tensor& x) {
  return x.defined() ? std::optional<Tensor>(x) : std::nullopt;
}

// Keeps a call for backward: its tensors and the state as variables, the rest as plain values.
void save_call(AutogradContext* context, const AttentionCall& call, const Tensor& state) {
  variable_list tensors = {call.q,
                           call.k,
                           call.v,
                           or_undefined(call.local),
                           or_undefined(call.gate),
                           state,
                           or_undefined(call.key_lengths),
                           or_undefined(call.cu_seqlens_q),
                           or_undefined(call.cu_seqlens_k),
                           or_undefined(call.grid_widths)};
  tensors.insert(tensors.end(), call.tables().begin(), call.tables().end());
  context->save_for_backward(std::move(tensors));
  auto& data = context->saved_data;
  data["rule"] = std::string(call.rule);
  data["norm"] = std::string(call.norm);
  data["feature"] = std::string(call.feature);
  data["key_mean"] = call.key_mean;
  data["scale"] = call.scale;
  data["eps"] = call.eps;
  data["rope"] = std::string(call.rope);
  data["rope_offset"] = call.rope_offset;
  data["grid_width"] = call.grid_width;
}

// What save_call kept. Owns the lists that the call points to.
struct SavedCall {
  explicit SavedCall(AutogradContext* context)
      : tensors(context->get_saved_variables()),
        rope_offset(context->saved_data["rope_offset"].toSymIntVector()),
        grid_width(context->saved_data["grid_width"].toSymIntVector()),
        data(context->saved_data) {}

  Tensor state() const { return tensors[5]; }

  AttentionCall call() const {
    return {.q = tensors[0],
            .k = tensors[1],
            .v = tensors[2],
            .local = if_defined(tensors[3]),
            .gate = if_defined(tensors[4]),
            .rule = data.at("rule").toStringView(),
            .norm = data.at("norm").toStringView(),
            .feature = data.at("feature").toStringView(),
            .key_mean = data.at("key_mean").toBool(),
            .scale = data.at("scale").toOptional<double>(),
            .eps = data.at("eps").toDouble(),
            .rope = data.at("rope").toStringView(),
            .rope_offset = rope_offset,
            .grid_width = grid_width,
            .rope_table = at::TensorList(tensors).slice(10),
            .key_lengths = if_defined(tensors[6]),
            .cu_seqlens_q = if_defined(tensors[7]),
            .cu_seqlens_k = if_defined(tensors[8]),
            .grid_widths = if_defined(tensors[9])};
  }

  variable_list tensors;
  std::vector<c10::SymInt> rope_offset, grid_width;
  ska::flat_hash_map<std::string, c10::IValue>& data;
};

// The state goes out by pointer: as an output of the function it would be differentiable.
struct ForwardFunction : Function<ForwardFunction> {
  static constexpr bool is_traceable = true;

  static Tensor forward(AutogradContext* context, const Tensor&, const Tensor&, const Tensor&,
                        const std::optional<Tensor>&, const std::optional<Tensor>&,
                        const AttentionCall& call, Tensor* state) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    Tensor out;
    std::tie(out, *state) = call_forward(call);
    save_call(context, call, *state);
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& out_gradients) {
    const SavedCall saved(context);
    const auto [dq, dk, dv, dlocal, dgate] =
        call_backward(out_gradients[0], saved.state(), saved.call());
    variable_list gradients = {dq, dk, dv, dlocal, dgate, Tensor(), Tensor()};
    // Edges count the inputs that were present, gradients all of them.
    size_t edge = 0;
    for (size_t i = 0; i < 5; ++i) {
      const bool present = saved.tensors[i].defined();
      if (!present || !context->needs_input_grad(edge)) gradients[i] = Tensor();
      edge += present;
    }
    return gradients;
  }
};

Outputs forward_autograd(const AttentionCall& call) {
  for (const Tensor& table : call.tables()) {
    TORCH_CHECK(!table.requires_grad(), "[mala::attention] rope_table requires a gradient, which ",
                "is not computed; pass table.detach()");
  }
  Tensor state;
  const Tensor out =
      ForwardFunction::apply(call.q, call.k, call.v, call.local, call.gate, call, &state);
  return {out, state};
}

// Lets backward run with create_graph=True and speaks up where its own gradient is asked for.
struct BackwardFunction : Function<BackwardFunction> {
  static variable_list forward(AutogradContext*, const at::TensorList& inputs,
                               const AttentionCall& call) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto [dq, dk, dv, dlocal, dgate] = call_backward(inputs[0], inputs[1], call);
    return {dq, dk, dv, dlocal, dgate};
  }

  static variable_list backward(AutogradContext*, const variable_list&) {
    TORCH_CHECK(false, "[mala::attention_backward] a gradient of the gradient was asked for, but ",
                "only first derivatives are computed; call backward without create_graph, or ",
                "write this attention with torch operators");
  }
};

Gradients backward_autograd(const Tensor& out_gradient, const Tensor& state,
                            const AttentionCall& call) {
  variable_list inputs = {out_gradient, state, call.q, call.k, call.v};
  if (call.local) inputs.push_back(*call.local);
  if (call.gate) inputs.push_back(*call.gate);
  const variable_list g = BackwardFunction::apply(at::TensorList(inputs), call);
  return {g[0], g[1], g[2], g[3], g[4]};
}

}  // namespace

TORCH_LIBRARY_IMPL(mala, Autograd, m) {
  m.impl("attention_forward", TORCH_FN(Flat::forward<forward_autograd>));
  m.impl("attention_backward", TORCH_FN(Flat::backward<backward_autograd>));
}

}  // namespace mala::ops
