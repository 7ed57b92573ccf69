// The gradients of mala::attention_chunk and mala::attention_text for autograd, into the state and
// out of it, and what mala::attention_step says in their place.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/variable.h>

#include "mala/ops/autograd.h"
#include "mala/ops/flat.h"

namespace mala::ops {
namespace {

// Where only the state after the chunk was used, nothing flows back from out.
Tensor no_gradient(const AttentionCall& call) {
  const Tensor& q = call.q;
  return at::zeros({}, q.options())
      .expand_symint({q.sym_size(0), q.sym_size(1), q.sym_size(2), call.value_dim()});
}

struct ChunkFunction : Function<ChunkFunction> {
  static constexpr bool is_traceable = true;

  static variable_list forward(AutogradContext* context, const Tensor&, const Tensor&,
                               const Tensor&, const std::optional<Tensor>&,
                               const std::optional<Tensor>&, const std::optional<Tensor>&,
                               const ChunkCall& call) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto [out, state, count] = call_operator(call);
    context->mark_non_differentiable({count});
    context->set_materialize_grads(false);
    save_call(context, ChunkBackwardCall{Tensor(), {}, call});
    return {out, state, count};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    SavedCall<ChunkBackwardCall> saved(context);
    const auto& [q, k, v, tail, weights, ropes, lengths] = saved.call.forward.tokens;
    const Tensor &out = gradients[0], &state = gradients[1];
    saved.call.out_gradient = out.defined() ? out : no_gradient(saved.call.forward.tokens);
    if (state.defined()) saved.call.state_gradient = state;
    const auto [dq, dk, dv, dlocal, dgate, dstate] = call_operator(saved.call);
    return asked_gradients(context,
                           {{q, dq},
                            {k, dk},
                            {v, dv},
                            {tail.local, dlocal},
                            {tail.gate, dgate},
                            {saved.call.forward.state, dstate}},
                           1);
  }
};

// As of a chunk without a state before, of whose state after nobody hears.
struct TextFunction : Function<TextFunction> {
  static constexpr bool is_traceable = true;

  static Tensor forward(AutogradContext* context, const Tensor&, const Tensor&, const Tensor&,
                        const std::optional<Tensor>&, const std::optional<Tensor>&,
                        const TextCall& call) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const Tensor out = call_operator(call);
    save_call(context, ChunkBackwardCall{Tensor(), {}, call.chunk()});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& out_gradients) {
    SavedCall<ChunkBackwardCall> saved(context);
    const auto& [q, k, v, tail, weights, ropes, lengths] = saved.call.forward.tokens;
    saved.call.out_gradient = out_gradients[0];
    const auto [dq, dk, dv, dlocal, dgate, dstate] = call_operator(saved.call);
    return asked_gradients(
        context, {{q, dq}, {k, dk}, {v, dv}, {tail.local, dlocal}, {tail.gate, dgate}}, 1);
  }
};

Tensor text_autograd(const TextCall& call) {
  const AttentionCall& tokens = call.tokens;
  check_table_gradient("mala::attention", tokens.ropes.tables());
  return TextFunction::apply(tokens.q, tokens.k, tokens.v, tokens.tail.local, tokens.tail.gate,
                             call);
}

ChunkOutputs chunk_autograd(const ChunkCall& call) {
  const AttentionCall& tokens = call.tokens;
  check_table_gradient("mala::attention_chunk", tokens.ropes.tables());
  const variable_list outputs = ChunkFunction::apply(
      tokens.q, tokens.k, tokens.v, tokens.tail.local, tokens.tail.gate, call.state, call);
  return {outputs[0], outputs[1], outputs[2]};
}

bool requires_gradient(const StepCall& call) {
  const auto does = [](const std::optional<Tensor>& x) { return x && x->requires_grad(); };
  return does(call.q) || does(call.k) || does(call.v) || does(call.state) ||
         does(call.tail.local) || does(call.tail.gate);
}

// The state before a step is gone afterwards, so there is nothing to compute a gradient from.
Tensor step_autograd(const StepCall& call) {
  TORCH_CHECK(!at::GradMode::is_enabled() || !requires_gradient(call),
              "[mala::attention_step] an input requires a gradient, but a step changes its state ",
              "in place and keeps nothing for backward; call it under torch.no_grad(), or use ",
              "attention_chunk");
  const at::AutoDispatchBelowAutograd below_autograd;
  return call_operator(call);
}

// Lets autograd notice that a state it saved has changed since.
Tensor step_in_place(const StepCall& call) {
  const at::AutoDispatchBelowADInplaceOrView below;
  const Tensor out = call_operator(call);
  torch::autograd::impl::bump_version(call.state);
  torch::autograd::impl::bump_version(call.count);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(mala, Autograd, m) {
  implement<chunk_autograd>(m);
  implement<text_autograd>(m);
  implement<once_differentiable<ChunkBackwardCall>>(m);
  implement<step_autograd>(m);
}

TORCH_LIBRARY_IMPL(mala, ADInplaceOrView, m) { implement<step_in_place>(m); }

}  // namespace mala::ops
