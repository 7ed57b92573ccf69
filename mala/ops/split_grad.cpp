// The gradients of mala::attention_keys and mala::attention_queries for autograd. The gradient of
// the state goes from one to the other, by way of whatever the caller did with the state between.
#include "mala/ops/autograd.h"
#include "mala/ops/flat.h"

namespace mala::ops {
namespace {

struct KeysFunction : Function<KeysFunction> {
  static constexpr bool is_traceable = true;

  static Tensor forward(AutogradContext* context, const Tensor&, const Tensor&,
                        const KeysCall& call) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    save_call(context, KeysBackwardCall{Tensor(), call});
    return call_operator(call);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    SavedCall<KeysBackwardCall> saved(context);
    saved.call.state_gradient = gradients[0];
    const auto [dk, dv] = call_operator(saved.call);
    return asked_gradients(context, {{saved.call.forward.k, dk}, {saved.call.forward.v, dv}}, 1);
  }
};

struct QueriesFunction : Function<QueriesFunction> {
  static constexpr bool is_traceable = true;

  static Tensor forward(AutogradContext* context, const Tensor&, const Tensor&,
                        const std::optional<Tensor>&, const std::optional<Tensor>&,
                        const QueriesCall& call) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    save_call(context, QueriesBackwardCall{Tensor(), call});
    return call_operator(call);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    SavedCall<QueriesBackwardCall> saved(context);
    saved.call.out_gradient = gradients[0];
    const QueriesCall& forward = saved.call.forward;
    const auto [dq, dstate, dlocal, dgate] = call_operator(saved.call);
    return asked_gradients(context,
                           {{forward.q, dq},
                            {forward.state, dstate},
                            {forward.tail.local, dlocal},
                            {forward.tail.gate, dgate}},
                           1);
  }
};

Tensor keys_autograd(const KeysCall& call) {
  check_table_gradient("mala::attention_keys", call.rope.tables());
  return KeysFunction::apply(call.k, call.v, call);
}

Tensor queries_autograd(const QueriesCall& call) {
  check_table_gradient("mala::attention_queries", call.rope.tables());
  return QueriesFunction::apply(call.q, call.state, call.tail.local, call.tail.gate, call);
}

}  // namespace

TORCH_LIBRARY_IMPL(mala, Autograd, m) {
  implement<keys_autograd>(m);
  implement<once_differentiable<KeysBackwardCall>>(m);
  implement<queries_autograd>(m);
  implement<once_differentiable<QueriesBackwardCall>>(m);
}

}  // namespace mala::ops
