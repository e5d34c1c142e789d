"""Right: a chain of three sides of one tensor."""

import torch


# fuselight: clip(f32[6])
def clip(x):
    if x.abs().max() > 3:
        y = x.clamp(-3, 3)
    elif x.sum() < 0:
        y = -x
    else:
        y = x + 0.5
    return y


def probe_all_sides():
    """other: each side once."""
    return [clip(torch.full((5,), v)) for v in (9.0, -1.0, 1.0)]


def probe_gradients():
    """gradients: of each side."""
    found = []
    for value in (9.0, -1.0, 1.0):
        x = torch.full((3,), value, requires_grad=True)
        clip(x).sum().backward()
        found.append(x.grad)
    return found


def probe_size():
    """size: two dimensions."""
    return clip(torch.ones(2, 3))
