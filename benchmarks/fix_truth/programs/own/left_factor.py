"""A factor on the left of a product meets gradients in half precision; a counter meets an integer."""

import torch


# fuselight: step(f32[4], f32[4], 0.1)
# fuselight: step(f32[4], f32[4], 0.2)
# fuselight: step(f32[4], f32[4], 0.3)
@torch.compile
def step(weight, grad, rate):
    return weight - rate * grad


# fuselight: bump(f32[4], 1)
# fuselight: bump(f32[4], 2)
# fuselight: bump(f32[4], 3)
@torch.compile
def bump(x, epoch: int):
    return x * epoch


def probe_values():
    """Values in single precision."""
    return [step(torch.ones(3), torch.full((3,), 2.0), rate) for rate in (0.1, 0.2, 1.0)]


def probe_half():
    """Half precision of the gradients alone."""
    return step(torch.ones(64), torch.linspace(-1, 1, 64).bfloat16(), 0.1)


def probe_narrow():
    """Dtype of a narrow integer without dimensions."""
    return bump(torch.tensor(3, dtype=torch.int8), 100)


def probe_counts():
    """Values of other counts."""
    return [bump(torch.ones(2), epoch) for epoch in (0, 1, -3, True, 2.5)]
