// The gradient of mala::attention for autograd.
#include "mala/ops/autograd.h"
#include "mala/ops/flat.h"

namespace mala::ops {
namespace {

// The state goes out by pointer: as an output of the function it would be differentiable.
struct ForwardFunction : Function<ForwardFunction> {
  static constexpr bool is_traceable = true;

  static Tensor forward(AutogradContext* context, const Tensor&, const Tensor&, const Tensor&,
                        const std::optional<Tensor>&, const std::optional<Tensor>&,
                        const AttentionCall& call, Tensor* state) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    Tensor out;
    std::tie(out, *state) = call_operator(call);
    save_call(context, BackwardCall{Tensor(), *state, call});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& out_gradients) {
    SavedCall<BackwardCall> saved(context);
    saved.call.out_gradient = out_gradients[0];
    const auto& [q, k, v, tail, weights, ropes, lengths] = saved.call.forward;
    const auto [dq, dk, dv, dlocal, dgate] = call_operator(saved.call);
    return asked_gradients(
        context, {{q, dq}, {k, dk}, {v, dv}, {tail.local, dlocal}, {tail.gate, dgate}}, 2);
  }
};

bool has_followed_input(const AttentionCall& call) {
  return is_followed(call.q) || is_followed(call.k) || is_followed(call.v) ||
         is_followed(call.tail.local) || is_followed(call.tail.gate);
}

template <typename Call>
typename Call::Result call_below_autograd(const Call& call) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return call_operator(call);
}

Outputs forward_autograd(const AttentionCall& call) {
  check_table_gradient("mala::attention", call.ropes.tables());
  if (!has_followed_input(call)) return call_below_autograd(call);
  Tensor state;
  const Tensor out =
      ForwardFunction::apply(call.q, call.k, call.v, call.tail.local, call.tail.gate, call, &state);
  return {out, state};
}

// Only here is it known for sure whether a backward may follow, which needs the state.
Tensor stateless_autograd(const StatelessCall& call) {
  if (has_followed_input(call.tokens)) return std::get<0>(forward_autograd(call.tokens));
  check_table_gradient("mala::attention", call.tokens.ropes.tables());
  return call_below_autograd(call);
}

}  // namespace

TORCH_LIBRARY_IMPL(mala, Autograd, m) {
  implement<forward_autograd>(m);
  implement<stateless_autograd>(m);
  implement<once_differentiable<BackwardCall>>(m);
}

}  // namespace mala::ops
