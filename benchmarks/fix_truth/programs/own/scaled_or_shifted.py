"""Right: both sides compute with the same tensor."""

import torch


# fuselight: step(f32[4, 3])
def step(x):
    if x.sum() > 0:
        return x * 2
    return x - 1


def probe_sizes():
    """size: other batches, and one row."""
    return [step(torch.ones(n, 3)) for n in (1, 2, 7)] + [step(-torch.ones(1, 3))]


def probe_gradients():
    """gradients: of both sides."""
    found = []
    for value in (1.0, -1.0):
        x = torch.full((2, 3), value, requires_grad=True)
        step(x).sum().backward()
        found.append(x.grad)
    return found


def probe_nan():
    """nonfinite: a NaN takes the second side."""
    return step(torch.tensor([[float("nan"), 1.0, 2.0]]))


def probe_empty():
    """empty: no rows."""
    return step(torch.empty(0, 3))
