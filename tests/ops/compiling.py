"""torch.compile in tests: how often it compiles, and whether it changes results."""

import torch
from torch._dynamo.testing import CompileCounterWithBackend


def compile_counted(function):
    """The compiled function, and the counter of its compilations."""
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    return torch.compile(function, backend=counter, fullgraph=True, dynamic=True), counter


def results_on(device):
    """Lets tracing take tensors of several devices, lengths being on the CPU: results are on this
    one."""
    return torch._functorch.config.patch(fake_tensor_prefer_device_type=device)


def expect_one_compilation(loss, calls):
    """calls: (tensors that need gradients, the other arguments), each of other sizes. Sizes that
    agree in the first by chance would be compiled as one."""
    compiled, counter = compile_counted(loss)
    for leaves, others in calls:
        leaves = [x.requires_grad_() for x in leaves]
        wanted = torch.autograd.grad(loss(*leaves, *others), leaves)
        for ours, theirs in zip(torch.autograd.grad(compiled(*leaves, *others), leaves), wanted):
            torch.testing.assert_close(ours, theirs)
    assert counter.frame_count == 1
