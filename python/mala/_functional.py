"""The operator for torch.func, which cannot look into functions of autograd that C++ defines."""

from typing import Any, Optional

import torch
from torch import Tensor


class _Attention(torch.autograd.Function):
    """The same kernels, forward and backward, with Python's hooks for transformations."""

    generate_vmap_rule = True

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, local: Optional[Tensor], gate: Optional[Tensor],
                causal: bool, options: dict[str, Any]) -> tuple[Tensor, Tensor]:
        if causal:  # its gradient needs no state
            out = torch.ops.mala.attention_text(q, k, v, local=local, gate=gate, **options)
            return out, out.new_empty(0)
        return torch.ops.mala.attention_forward(q, k, v, local=local, gate=gate, **options)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        *tensors, ctx.causal, ctx.options = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*tensors, output[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Any) -> tuple:
        found = _Gradients.apply(gradient, *ctx.saved_tensors, ctx.causal, ctx.options)
        given = (x is not None for x in ctx.saved_tensors)
        return (*(dx if is_given else None for is_given, dx in zip(given, found)), None, None)


class _Gradients(torch.autograd.Function):
    """A function of its own: transformations follow gradients too, and must not meet C++ there."""

    generate_vmap_rule = True

    @staticmethod
    def forward(gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, local: Optional[Tensor],
                gate: Optional[Tensor], state: Tensor, causal: bool, options: dict[str, Any]
                ) -> tuple[Tensor, ...]:
        tail = {"local": local, "gate": gate}
        if causal:
            found = torch.ops.mala.attention_chunk_backward(gradient, None, q, k, v, **tail,
                                                            **options)
            return found[:5]
        return torch.ops.mala.attention_backward(gradient, state, q, k, v, **tail, **options)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple:
        raise RuntimeError("[mala::attention] the gradient of a gradient was asked for, but only "
                           "first derivatives are computed; mala.decompose has the formula in "
                           "torch's own operators")


def attention(q: Tensor, k: Tensor, v: Tensor, *, local: Optional[Tensor] = None,
              gate: Optional[Tensor] = None, causal: bool = False, **options: Any) -> Tensor:
    """torch.ops.mala.attention, differentiable by torch.func.grad, vjp and jacrev."""
    return _Attention.apply(q, k, v, local, gate, causal, options)[0]
