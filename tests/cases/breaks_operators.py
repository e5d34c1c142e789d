"""Breaks in functions that operators capture whole, and in hooks, each beside its cure."""

import torch

HANDLE = None


# fuselight: returns_a_view(f32[4], train=True)
@torch.compile
def returns_a_view(x):
    return torch.cond(x.sum() > 0, lambda x: x.view(2, 2), lambda x: x.reshape(2, 2) + 1, (x,))
    # error: [FL404] "graph break inside a higher-order operator: a function that is captured whole returns its input, or a view of it"


# fuselight: returns_a_copy(f32[4], train=True)
@torch.compile(fullgraph=True)
def returns_a_copy(x):
    return torch.cond(x.sum() > 0, lambda x: x.view(2, 2).clone(), lambda x: x.reshape(2, 2) + 1, (x,))


# fuselight: changes_its_input(f32[4], train=True)
@torch.compile
def changes_its_input(x):
    return torch.cond(x.sum() > 0, lambda x: x.add_(1).clone(), lambda x: x + 2, (x * 2,))
    # error: [FL404] "graph break inside a higher-order operator: a function that is captured whole changes its input in place"


# fuselight: returns_a_new_tensor(f32[4], train=True)
@torch.compile(fullgraph=True)
def returns_a_new_tensor(x):
    return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x + 2, (x * 2,))


# fuselight: keeps_its_handle(f32[4], train=True)
@torch.compile
def keeps_its_handle(x):  # info: [FL101] "`keeps_its_handle` is not compiled: torch skipped it"
    global HANDLE
    HANDLE = x.register_hook(lambda g: g * 2)
    # warning: [GB0100] "graph break: the handle of a tensor hook is stored in a global variable"
    return x * 2


# fuselight: has_a_local_handle(f32[4].requires_grad_(), train=True)
@torch.compile(fullgraph=True)
def has_a_local_handle(x):
    handle = x.register_hook(lambda g: g * 2)
    y = x * 2
    handle.remove()
    return y


# fuselight: resizes(f32[4])
@torch.compile
def resizes(x):
    values, places = torch.empty(0), torch.empty(0, dtype=torch.long)
    torch.max(x, 0, out=(values, places))
    # warning: [GB0240] "graph break: `out=` has a tensor of a different shape, which this call resizes"
    return values + 1


# fuselight: uses_the_result(f32[4])
@torch.compile(fullgraph=True)
def uses_the_result(x):
    values, _ = torch.max(x, 0)
    return values + 1


# fuselight: counts_up(f32[4])
@torch.compile
def counts_up(x):  # warning: [FL103] "`counts_up` is not compiled: it is a generator"
    yield x + 1


# fuselight: collects(f32[4])
@torch.compile(fullgraph=True)
def collects(x):
    return [x + 1]
